//! What `tokenizer_config.json` adds to a tokenizer: the named special tokens and the chat template.

use serde_json::{Map, Value};

use crate::error::{Result, TextError};

/// The fields of `tokenizer_config.json` that matter here.
#[derive(Clone, Debug, Default)]
pub struct TokenizerConfig {
    /// `bos_token`, `eos_token`, `pad_token`, ... as strings: the names templates see.
    pub special_tokens: Map<String, Value>,
    /// The chat template, if the file has one.
    pub chat_template: Option<String>,
}

const TOKEN_NAMES: [&str; 7] = [
    "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token",
];

impl TokenizerConfig {
    /// Parses the file's text; an empty text is an empty configuration.
    pub fn parse(text: &str) -> Result<Self> {
        let mut config = TokenizerConfig::default();
        if text.trim().is_empty() {
            return Ok(config);
        }
        let json: Value = serde_json::from_str(text)
            .map_err(|e| TextError::artifact(format!("tokenizer_config.json is not JSON: {e}")))?;
        let Value::Object(fields) = json else {
            return Err(TextError::artifact("tokenizer_config.json; expected a JSON object"));
        };
        for name in TOKEN_NAMES {
            if let Some(token) = token_text(fields.get(name)) {
                config.special_tokens.insert(name.to_owned(), Value::from(token));
            }
        }
        config.chat_template = pick_template(fields.get("chat_template"))?;
        Ok(config)
    }

    /// The spelling of a named special token such as `bos_token`.
    pub fn token(&self, name: &str) -> Option<&str> {
        self.special_tokens.get(name).and_then(Value::as_str)
    }
}

/// A token is written as a string or as an AddedToken object with the string in `content`.
fn token_text(value: Option<&Value>) -> Option<&str> {
    let value = value?;
    value.as_str().or_else(|| value.get("content").and_then(Value::as_str))
}

/// A template is a string, or a list of `{name, template}` of which "default" is meant for chat.
fn pick_template(value: Option<&Value>) -> Result<Option<String>> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(Value::Array(entries)) => {
            let text = |entry: &Value, key: &str| {
                entry.get(key).and_then(Value::as_str).map(str::to_owned)
            };
            let mut names = Vec::new();
            for entry in entries {
                let name = text(entry, "name").unwrap_or_default();
                if name == "default" {
                    return Ok(text(entry, "template"));
                }
                names.push(name);
            }
            match entries.as_slice() {
                [] => Ok(None),
                [only] => Ok(text(only, "template")),
                _ => Err(TextError::unsupported(format!(
                    "tokenizer_config.json chat_template; expected one named \"default\", got {}",
                    names.join(", ")
                ))),
            }
        }
        Some(_) => Err(TextError::artifact(
            "tokenizer_config.json chat_template; expected a string or a list of named templates",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_as_strings_and_objects() {
        let config = TokenizerConfig::parse(
            r#"{"bos_token": "<s>", "eos_token": {"content": "</s>", "lstrip": false}, "pad_token": null}"#,
        )
        .unwrap();
        assert_eq!(config.token("bos_token"), Some("<s>"));
        assert_eq!(config.token("eos_token"), Some("</s>"));
        assert_eq!(config.token("pad_token"), None);
    }

    #[test]
    fn the_default_template_is_picked() {
        let pick = |json: &str| TokenizerConfig::parse(json).map(|c| c.chat_template);
        let named = r#"{"chat_template": [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]}"#;
        assert_eq!(pick(named).unwrap().as_deref(), Some("d"));
        assert_eq!(pick(r#"{"chat_template": "x"}"#).unwrap().as_deref(), Some("x"));
        assert_eq!(pick("{}").unwrap(), None);
        let ambiguous = r#"{"chat_template": [{"name": "a", "template": "t"}, {"name": "b", "template": "d"}]}"#;
        assert!(pick(ambiguous).unwrap_err().message.contains("a, b"));
        assert!(pick(r#"{"chat_template": 3}"#).is_err());
        assert!(TokenizerConfig::parse("[1]").is_err());
        assert!(TokenizerConfig::parse("{").is_err());
    }
}
