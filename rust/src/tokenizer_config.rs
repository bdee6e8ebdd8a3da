//! What `tokenizer_config.json` adds to a tokenizer: the named special tokens. Its chat template is
//! picked by whoever reads a model's files, not here.

use serde_json::{Map, Value};

use crate::error::{Result, TextError};

/// The fields of `tokenizer_config.json` that matter here.
#[derive(Clone, Debug, Default)]
pub struct TokenizerConfig {
    /// `bos_token`, `eos_token`, `pad_token`, ... as strings: the names templates see.
    pub special_tokens: Map<String, Value>,
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
    fn what_is_no_object_is_refused() {
        assert!(TokenizerConfig::parse(" ").unwrap().special_tokens.is_empty());
        assert!(TokenizerConfig::parse("{}").unwrap().special_tokens.is_empty());
        assert!(TokenizerConfig::parse("[1]").is_err());
        assert!(TokenizerConfig::parse("{").is_err());
    }
}
