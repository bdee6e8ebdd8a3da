//! A tokenizer with everything the engine asks of it: ids, bytes per token, special tokens.
//! Encoding is Hugging Face's; decoding is the table of `token_bytes`, read by C++.

use std::panic::{catch_unwind, AssertUnwindSafe};

use serde_json::{Map, Value};
use tokenizers::tokenizer::{
    AddedVocabulary, Model, OffsetType, PreTokenizer as _, Tokenizer,
};
use tokenizers::ModelWrapper;

use crate::error::{panic_text, Code, Result, TextError};
use crate::token_bytes::DecodeRule;
use crate::tokenizer_config::TokenizerConfig;

/// Longest run of white space that is encoded, in characters. Above about one million the
/// backtracking stack of `fancy-regex` overflows inside `\s+(?!\S)`, `tokenizers` takes that for
/// the end of the matches, and the ids would be silently wrong; half of it leaves room.
pub const MAX_WHITESPACE_RUN: usize = 500_000;

/// Largest accepted id, so that a hostile file cannot ask for a table of gigabytes.
const MAX_TOKEN_ID: u32 = (1 << 24) - 1;

/// Encoded when a tokenizer is loaded, so that a file that cannot encode anything is refused then.
const PROBE: &str = "Hello, W\u{f6}rld!  1234\n\u{e9}\u{fb01}\u{4f60}\u{1f600}";

/// Spellings that end a turn or a text wherever they are special tokens; the list holds those of
/// the widely used chat formats. `<|end|>` is handled apart.
const END_OF_TURN: [&str; 16] = [
    "<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "<|eot|>",
    "<|eom|>", "<end_of_turn>", "<turn|>", "<end_of_utterance>", "<|END_OF_TURN_TOKEN|>",
    "<|return|>", "<|call|>", "<｜end▁of▁sentence｜>", "<|end_of_turn|>", "<|endofturn|>",
];

/// The ids with a meaning of their own.
#[derive(Clone, Debug, Default)]
pub struct NamedTokens {
    pub bos: Option<u32>,
    pub eos: Option<u32>,
    /// Ids that end a turn or a text, ascending.
    pub ends: Vec<u32>,
    /// `bos_token` and so on, as chat templates see them.
    pub template_variables: Map<String, Value>,
}

/// Immutable after construction and safe to share between threads.
pub struct TextTokenizer {
    inner: Tokenizer,
    /// The same added tokens, but special ones are not recognised in text.
    plain_added: AddedVocabulary,
    pub rule: DecodeRule,
    /// Bytes of all tokens in the order of their ids; token i is `offsets[i]..offsets[i + 1]`.
    pub bytes: Vec<u8>,
    pub offsets: Vec<u64>,
    /// 1 for special tokens.
    pub special: Vec<u8>,
    pub named: NamedTokens,
}

impl TextTokenizer {
    /// Reads a `tokenizer.json` and, if not empty, a `tokenizer_config.json`.
    ///
    /// Truncation, padding and BPE dropout that the file may ask for are switched off: they belong
    /// to training pipelines and would change or drop tokens of a prompt.
    /// Fails with InvalidArtifact on a malformed file, Unsupported on models that are not BPE or
    /// Unigram and on decoders that `DecodeRule` cannot express.
    pub fn from_json(json: &[u8], config: &str) -> Result<Self> {
        let config = TokenizerConfig::parse(config)?;
        // Building a vocabulary from inconsistent merges can panic inside the crate.
        let mut inner = library_call(|| Tokenizer::from_bytes(json))?
            .map_err(|e| TextError::artifact(format!("tokenizer.json cannot be read: {e}")))?;
        match inner.get_model() {
            ModelWrapper::BPE(bpe) if bpe.dropout.is_some() => {
                let mut exact = bpe.clone();
                exact.dropout = None;
                inner.with_model(exact);
            }
            ModelWrapper::BPE(_) | ModelWrapper::Unigram(_) => {}
            ModelWrapper::WordPiece(_) => return Err(model_refused("WordPiece")),
            ModelWrapper::WordLevel(_) => return Err(model_refused("WordLevel")),
        }
        inner.with_truncation(None).map_err(|e| TextError::artifact(e.to_string()))?;
        inner.with_padding(None);

        let decoder = serde_json::to_value(inner.get_decoder())
            .map_err(|e| TextError::artifact(format!("tokenizer.json decoder: {e}")))?;
        let rule = DecodeRule::from_json(&decoder)
            .map_err(|e| TextError::new(e.code, format!("tokenizer.json {}", e.message)))?;

        let mut spellings: Vec<String> = Vec::new();
        let model_vocabulary = inner.get_model().get_vocab();
        let added = inner.get_added_tokens_decoder();
        let all = model_vocabulary
            .iter()
            .map(|(token, &id)| (id, token))
            .chain(added.iter().map(|(&id, token)| (id, &token.content)));
        for (id, token) in all {
            if id > MAX_TOKEN_ID {
                return Err(TextError::artifact(format!(
                    "tokenizer.json token {token:?}; expected an id up to {MAX_TOKEN_ID}, got {id}"
                )));
            }
            let index = id as usize;
            if index >= spellings.len() {
                spellings.resize(index + 1, String::new());
            }
            spellings[index].clone_from(token);
        }

        let id_of = |name: &str| config.token(name).and_then(|t| inner.token_to_id(t));
        let named = NamedTokens {
            bos: id_of("bos_token"),
            eos: id_of("eos_token"),
            ends: id_of("eos_token").into_iter().collect(),
            template_variables: config.special_tokens.clone(),
        };
        Self::assemble(inner, rule, &spellings, named)
    }

    /// Puts the pieces together: builds the table of bytes and completes the end-of-turn ids.
    /// `spellings[i]` is the spelling of token i, empty where there is none.
    pub(crate) fn assemble(
        inner: Tokenizer,
        rule: DecodeRule,
        spellings: &[String],
        mut named: NamedTokens,
    ) -> Result<Self> {
        if spellings.is_empty() {
            return Err(TextError::artifact("the vocabulary is empty"));
        }
        let mut bytes = Vec::new();
        let mut offsets = vec![0u64];
        let mut special = Vec::with_capacity(spellings.len());
        for token in spellings {
            rule.append_bytes(token, &mut bytes);
            offsets.push(bytes.len() as u64);
            special.push(inner.get_added_vocabulary().is_special_token(token) as u8);
        }

        let special_id = |text: &str| {
            inner.token_to_id(text).filter(|_| inner.get_added_vocabulary().is_special_token(text))
        };
        named.ends.extend(END_OF_TURN.iter().filter_map(|t| special_id(t)));
        // With `<|return|>` beside it, `<|end|>` only closes one message of a longer turn.
        if special_id("<|return|>").is_none() {
            named.ends.extend(special_id("<|end|>"));
        }
        named.ends.sort_unstable();
        named.ends.dedup();

        check_post_processor(&inner, spellings.len())?;

        let mut plain_added = inner.get_added_vocabulary().clone();
        plain_added.set_encode_special_tokens(true);
        let built = Self { inner, plain_added, rule, bytes, offsets, special, named };
        // Text that this vocabulary has no tokens for is an error of that text, not of the file.
        for parse_special in [true, false] {
            library_call(|| built.encode_here(PROBE, true, parse_special))?.ok();
        }
        Ok(built)
    }

    /// Turns text into ids. `add_special` applies the post-processor (BOS, mostly);
    /// with `parse_special` special tokens spelled in the text become their ids, without it they
    /// are ordinary text. Added tokens that are not special are recognised either way, as by
    /// Hugging Face's `split_special_tokens`.
    ///
    /// Fails with InvalidArgument on text that cannot be encoded, and with InvalidArtifact where the
    /// file makes the `tokenizers` library panic.
    pub fn encode(&self, text: &str, add_special: bool, parse_special: bool) -> Result<Vec<u32>> {
        check_whitespace(text)?;
        library_call(|| self.encode_here(text, add_special, parse_special))?
    }

    fn encode_here(&self, text: &str, add_special: bool, parse_special: bool) -> Result<Vec<u32>> {
        let failed = |e: tokenizers::Error| {
            TextError::new(Code::InvalidArgument, format!("text cannot be encoded: {e}"))
        };
        let encoding = if parse_special {
            self.inner.encode_fast(text, add_special).map_err(failed)?
        } else {
            let mut pieces =
                self.plain_added.extract_and_normalize(self.inner.get_normalizer(), text);
            if let Some(pre_tokenizer) = self.inner.get_pre_tokenizer() {
                pre_tokenizer.pre_tokenize(&mut pieces).map_err(failed)?;
            }
            pieces.tokenize(|word| self.inner.get_model().tokenize(word.get())).map_err(failed)?;
            let encoding = pieces.into_encoding(None, 0, OffsetType::None).map_err(failed)?;
            self.inner.post_process(encoding, None, add_special).map_err(failed)?
        };
        Ok(encoding.get_ids().to_vec())
    }

    /// The id of the token spelled `token` in the vocabulary (not of the text it decodes to).
    pub fn token_id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    /// One more than the largest id.
    pub fn vocab_size(&self) -> usize {
        self.special.len()
    }

    /// Decodes by the reference implementation, to test the table against.
    #[cfg(test)]
    pub(crate) fn reference_decode(&self, ids: &[u32], skip_special: bool) -> String {
        self.inner.decode(ids, skip_special).unwrap()
    }
}

/// Runs a part of the `tokenizers` library, which panics on files that it read without complaint
/// (inconsistent merges, a pre-tokenizer with pieces of length 0, an empty pattern, ...).
fn library_call<T>(call: impl FnOnce() -> T) -> Result<T> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| {
        let text = panic_text(&*panic);
        TextError::artifact(format!("the tokenizer file makes the tokenizers library fail: {text}"))
    })
}

/// The post-processor adds ids as the file writes them, whether or not they are in the vocabulary.
fn check_post_processor(tokenizer: &Tokenizer, vocab_size: usize) -> Result<()> {
    let json = serde_json::to_value(tokenizer.get_post_processor())
        .map_err(|e| TextError::artifact(format!("tokenizer.json post_processor: {e}")))?;
    let mut steps = vec![&json];
    while let Some(step) = steps.pop() {
        steps.extend(step.get("processors").and_then(Value::as_array).into_iter().flatten());
        let specials = step.get("special_tokens").and_then(Value::as_object);
        let of_template = specials.into_iter().flat_map(Map::values).filter_map(|s| s.get("ids"));
        let of_template = of_template.filter_map(Value::as_array).flatten();
        // BERT's and RoBERTa's are pairs of spelling and id.
        let of_bert = ["cls", "sep"].into_iter().filter_map(|name| step.get(name)?.get(1));
        if let Some(id) = of_template.chain(of_bert).find(|id| id.as_u64().is_none_or(|id| id >= vocab_size as u64)) {
            return Err(TextError::artifact(format!(
                "post_processor adds token {id}; expected an id below {vocab_size}"
            )));
        }
    }
    Ok(())
}

fn model_refused(name: &str) -> TextError {
    TextError::unsupported(format!("tokenizer.json model {name}; expected BPE or Unigram"))
}

fn check_whitespace(text: &str) -> Result<()> {
    if text.len() <= MAX_WHITESPACE_RUN {
        return Ok(());
    }
    let mut run = 0;
    for (position, c) in text.char_indices() {
        run = if c.is_whitespace() { run + 1 } else { 0 };
        if run > MAX_WHITESPACE_RUN {
            return Err(TextError::argument(format!(
                "text has more than {MAX_WHITESPACE_RUN} white-space characters in a row, up to \
                 byte {position}; shorten the run"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Byte-level BPE over the whole alphabet with two merges and two special tokens.
    fn tiny() -> String {
        let mut alphabet: Vec<char> =
            tokenizers::pre_tokenizers::byte_level::ByteLevel::alphabet().into_iter().collect();
        alphabet.sort_unstable();
        let mut vocabulary = Map::new();
        for (id, c) in alphabet.iter().enumerate() {
            vocabulary.insert(c.to_string(), Value::from(id));
        }
        vocabulary.insert("he".into(), Value::from(256));
        vocabulary.insert("hel".into(), Value::from(257));
        serde_json::json!({
            "version": "1.0", "truncation": {"max_length": 3, "stride": 0, "strategy": "LongestFirst", "direction": "Right"},
            "padding": null,
            "added_tokens": [
                {"id": 258, "content": "<s>", "special": true, "normalized": false, "single_word": false, "lstrip": false, "rstrip": false},
                {"id": 259, "content": "<|im_end|>", "special": true, "normalized": false, "single_word": false, "lstrip": false, "rstrip": false}],
            "normalizer": null,
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
            "post_processor": {"type": "TemplateProcessing",
                "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                "special_tokens": {"<s>": {"id": "<s>", "ids": [258], "tokens": ["<s>"]}}},
            "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
            "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
                "vocab": vocabulary, "merges": ["h e", "he l"]}
        })
        .to_string()
    }

    #[test]
    fn encodes_without_the_truncation_of_the_file() {
        let t = TextTokenizer::from_json(tiny().as_bytes(), "").unwrap();
        let ids = t.encode("hello hello", true, true).unwrap();
        assert_eq!(ids[..2], [258, 257]);
        assert!(ids.len() > 3);
        assert_eq!(t.encode("", true, true).unwrap(), [258]);
        assert!(t.encode("", false, true).unwrap().is_empty());
    }

    #[test]
    fn special_tokens_in_text_follow_the_flag() {
        let t = TextTokenizer::from_json(tiny().as_bytes(), r#"{"eos_token": "<s>"}"#).unwrap();
        assert_eq!(t.encode("<|im_end|>", false, true).unwrap(), [259]);
        let plain = t.encode("<|im_end|>", false, false).unwrap();
        assert!(!plain.contains(&259) && plain.len() > 1);
        assert_eq!(t.encode("hel", true, false).unwrap(), [258, 257]);
        assert_eq!(t.named.ends, [258, 259]);
        assert_eq!(t.special[259], 1);
        assert_eq!(t.special[257], 0);
    }

    #[test]
    fn the_table_decodes_as_the_reference_does() {
        let t = TextTokenizer::from_json(tiny().as_bytes(), "").unwrap();
        let joined = |ids: &[u32]| {
            let bytes: Vec<u8> = ids
                .iter()
                .flat_map(|&i| &t.bytes[t.offsets[i as usize] as usize..t.offsets[i as usize + 1] as usize])
                .copied()
                .collect();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let ids = t.encode("héllo <s>👋🏽 \n\u{0} ｜", true, true).unwrap();
        assert_eq!(joined(&ids), t.reference_decode(&ids, false));
        // Every id after every other: broken UTF-8 in all combinations.
        for first in 0..260 {
            for second in (0..260).step_by(7) {
                let pair = [first, second, 257];
                assert_eq!(joined(&pair), t.reference_decode(&pair, false), "{pair:?}");
            }
        }
    }

    #[test]
    fn long_whitespace_is_refused_and_shorter_is_exact() {
        let t = TextTokenizer::from_json(tiny().as_bytes(), "").unwrap();
        let limit = " ".repeat(MAX_WHITESPACE_RUN) + "x";
        assert_eq!(t.encode(&limit, false, true).unwrap().len(), MAX_WHITESPACE_RUN + 1);
        let beyond = " ".repeat(MAX_WHITESPACE_RUN + 1);
        let error = t.encode(&beyond, false, true).unwrap_err();
        assert_eq!(error.code, Code::InvalidArgument);
        assert!(error.message.contains("white-space"), "{error}");
    }

    #[test]
    fn files_that_make_the_library_panic_are_refused() {
        let normalizer = |json: &str| {
            let file = tiny().replace("\"normalizer\":null", &format!("\"normalizer\":{json}"));
            assert_ne!(file, tiny());
            TextTokenizer::from_json(file.as_bytes(), "")
        };
        let refused = |loaded: Result<TextTokenizer>, what: &str| {
            let error = loaded.err().unwrap_or_else(|| panic!("{what} was loaded"));
            assert_eq!(error.code, Code::InvalidArtifact, "{what}");
            assert!(error.message.contains("tokenizer"), "{what}: {error}");
        };
        for json in [
            r#"{"type":"Prepend","prepend":""}"#,
            r#"{"type":"Replace","pattern":{"String":""},"content":"x"}"#,
            r#"{"type":"Precompiled","precompiled_charsmap":"AAAA"}"#,
            r#"{"type":"Precompiled","precompiled_charsmap":"/////w=="}"#,
            r#"{"type":"Precompiled","precompiled_charsmap":"BAAAAP////8="}"#,
        ] {
            refused(normalizer(json), json);
        }
        let fixed = json!({"type": "Sequence", "pretokenizers": [{"type": "FixedLength", "length": 0}]});
        let mut file: Value = serde_json::from_str(&tiny()).unwrap();
        file["pre_tokenizer"] = fixed;
        refused(TextTokenizer::from_json(file.to_string().as_bytes(), ""), "FixedLength");

        // One that fails only at some texts.
        let late = normalizer(r#"{"type":"Replace","pattern":{"Regex":"(?=q)"},"content":"x"}"#).unwrap();
        assert!(late.encode("hel", true, true).is_ok());
        let error = late.encode("q", true, true).unwrap_err();
        assert_eq!(error.code, Code::InvalidArtifact);
        assert!(error.message.starts_with("the tokenizer file makes the tokenizers library fail: "), "{error}");
    }

    #[test]
    fn the_post_processor_adds_tokens_of_the_vocabulary() {
        let with = |post_processor: Value| {
            let mut file: Value = serde_json::from_str(&tiny()).unwrap();
            file["post_processor"] = post_processor;
            TextTokenizer::from_json(file.to_string().as_bytes(), "").map(|_| ())
        };
        let template = |id: u32| json!({"type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [258, id], "tokens": ["<s>", "x"]}}});
        let bert = |id: u32| json!({"type": "BertProcessing", "sep": ["x", id], "cls": ["<s>", 258]});
        let inside = |step: Value| json!({"type": "Sequence", "processors": [step]});
        for good in [template(259), bert(259), inside(template(259))] {
            with(good).unwrap();
        }
        for bad in [template(260), template(u32::MAX), bert(260), inside(template(260)), inside(bert(260))] {
            let error = with(bad).unwrap_err();
            assert_eq!(error.code, Code::InvalidArtifact);
            assert!(error.message.contains("expected an id below 260"), "{error}");
        }
    }

    #[test]
    fn bad_files_are_refused() {
        let code = |json: &str| TextTokenizer::from_json(json.as_bytes(), "").err().map(|e| e.code);
        assert_eq!(code("{"), Some(Code::InvalidArtifact));
        assert_eq!(code("{}"), Some(Code::InvalidArtifact));
        let huge = tiny().replace("\"hel\":257", "\"hel\":4000000000");
        assert_eq!(code(&huge), Some(Code::InvalidArtifact));
        let no_decoder = tiny().replace("\"decoder\":{", "\"decoder_\":{");
        assert!(code(&no_decoder).is_some());
        let merges = tiny().replace("\"he l\"", "\"he lll\"");
        assert_eq!(code(&merges), Some(Code::InvalidArtifact));
        let word_piece = r####"{"version": "1.0", "added_tokens": [], "decoder": null, "model": {"type": "WordPiece",
            "unk_token": "u", "continuing_subword_prefix": "##", "max_input_chars_per_word": 9, "vocab": {"u": 0}}}"####;
        assert_eq!(code(word_piece), Some(Code::Unsupported));
    }
}
