//! The bytes that each token contributes to decoded text.
//!
//! Joining these bytes over a sequence and reading them as UTF-8 is what the decoders of
//! `tokenizer.json` files do, so one table serves decoding, streaming and constrained decoding.
//! The one difference: where a run of SentencePiece byte tokens is not UTF-8, Hugging Face turns
//! every byte of the run into U+FFFD, while here only the bytes that cannot be read become U+FFFD.

use serde_json::Value;

use crate::error::{Result, TextError};

/// How a token's spelling becomes bytes, read from the decoder of a tokenizer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DecodeRule {
    /// GPT-2's byte-to-character alphabet is undone.
    pub byte_level: bool,
    /// U+2581 becomes a space.
    pub metaspace: bool,
    /// `<0xNN>` becomes the byte NN.
    pub byte_fallback: bool,
    /// One space at the very start of the decoded text is dropped.
    pub strips_leading_space: bool,
    /// Every space of the first decoded token is dropped (the `Metaspace` decoder).
    pub first_token_drops_spaces: bool,
}

const METASPACE: char = '\u{2581}';

impl DecodeRule {
    /// Reads the `decoder` of a `tokenizer.json`.
    ///
    /// Fails with Unsupported for decoders that are not a function of single tokens, such as
    /// WordPiece, and for a missing decoder (whose pieces would be joined with spaces).
    pub fn from_json(decoder: &Value) -> Result<Self> {
        let mut rule = DecodeRule::default();
        match decoder {
            Value::Null => return Err(TextError::unsupported(
                "decoder is null; expected ByteLevel, Metaspace or a Sequence of Replace, \
                 ByteFallback, Fuse and Strip",
            )),
            _ => rule.add(decoder)?,
        }
        Ok(rule)
    }

    fn add(&mut self, step: &Value) -> Result<()> {
        let text = |key: &str| step.get(key).and_then(Value::as_str);
        let kind = text("type").unwrap_or("(no type)");
        match kind {
            "Sequence" => {
                for inner in step.get("decoders").and_then(Value::as_array).into_iter().flatten() {
                    self.add(inner)?;
                }
            }
            "ByteLevel" => self.byte_level = true,
            "ByteFallback" => self.byte_fallback = true,
            "Fuse" => {}
            "Metaspace" => {
                if text("replacement").is_some_and(|r| r != "\u{2581}") {
                    return Err(TextError::unsupported("decoder Metaspace with a replacement other than U+2581"));
                }
                self.metaspace = true;
                // Older files have the boolean `add_prefix_space` instead of `prepend_scheme`.
                self.first_token_drops_spaces = match text("prepend_scheme") {
                    Some(scheme) => scheme != "never",
                    None => step.get("add_prefix_space").and_then(Value::as_bool).unwrap_or(true),
                };
            }
            "Replace" => {
                let pattern = step.pointer("/pattern/String").and_then(Value::as_str);
                match (pattern, text("content")) {
                    (Some("\u{2581}"), Some(" ")) => self.metaspace = true,
                    _ => return Err(TextError::unsupported(
                        "decoder Replace other than U+2581 by a space",
                    )),
                }
            }
            "Strip" => {
                let count = |key: &str| step.get(key).and_then(Value::as_u64).unwrap_or(0);
                match (text("content"), count("start"), count("stop")) {
                    (_, 0, 0) => {}
                    (Some(" "), 1, 0) => self.strips_leading_space = true,
                    _ => return Err(TextError::unsupported(
                        "decoder Strip other than of one leading space",
                    )),
                }
            }
            other => {
                return Err(TextError::unsupported(format!(
                    "decoder {other:?}; expected ByteLevel, Metaspace, or a Sequence of Replace, \
                     ByteFallback, Fuse and Strip"
                )))
            }
        }
        Ok(())
    }

    /// Appends the bytes of the token spelled `token`.
    pub fn append_bytes(&self, token: &str, out: &mut Vec<u8>) {
        if self.byte_level {
            let start = out.len();
            for c in token.chars() {
                match alphabet_byte(c) {
                    Some(byte) => out.push(byte),
                    None => {
                        // A token outside of the alphabet is spelled as itself (added tokens).
                        out.truncate(start);
                        out.extend_from_slice(token.as_bytes());
                        return;
                    }
                }
            }
            return;
        }
        if self.byte_fallback {
            if let Some(byte) = fallback_byte(token) {
                out.push(byte);
                return;
            }
        }
        if self.metaspace && token.contains(METASPACE) {
            out.extend(token.replace(METASPACE, " ").into_bytes());
        } else {
            out.extend_from_slice(token.as_bytes());
        }
    }
}

/// The byte that a character of GPT-2's alphabet stands for. The printable bytes of Latin-1 stand
/// for themselves and the 68 others for U+0100 onwards, in order (`bytes_to_unicode` of GPT-2).
fn alphabet_byte(c: char) -> Option<u8> {
    match c as u32 {
        code @ (0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff) => Some(code as u8),
        code @ 0x100..=0x120 => Some((code - 0x100) as u8), // 0x00..=0x20
        code @ 0x121..=0x142 => Some((code - 0x121 + 0x7f) as u8), // 0x7f..=0xa0
        0x143 => Some(0xad),
        _ => None,
    }
}

/// The byte of a SentencePiece byte token `<0xNN>`.
fn fallback_byte(token: &str) -> Option<u8> {
    let digits = token.strip_prefix("<0x")?.strip_suffix('>')?;
    if digits.len() == 2 && digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        u8::from_str_radix(digits, 16).ok()
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_alphabet_is_that_of_the_tokenizers_crate() {
        let mut seen = [false; 256];
        for c in tokenizers::pre_tokenizers::byte_level::ByteLevel::alphabet() {
            let byte = alphabet_byte(c).unwrap_or_else(|| panic!("{c:?} has no byte"));
            assert!(!seen[byte as usize], "{c:?} repeats byte {byte}");
            seen[byte as usize] = true;
        }
        assert!(seen.iter().all(|&s| s));
        assert_eq!(alphabet_byte('Ġ'), Some(b' '));
        assert_eq!(alphabet_byte('Ċ'), Some(b'\n'));
        assert_eq!(alphabet_byte('｜'), None);
    }

    #[test]
    fn decoders_that_need_neighbours_are_refused_by_name() {
        let error = DecodeRule::from_json(&json!({"type": "WordPiece"})).unwrap_err();
        assert!(error.message.contains("WordPiece"), "{error}");
        assert!(DecodeRule::from_json(&Value::Null).is_err());
    }

    #[test]
    fn sentencepiece_spellings() {
        let rule = DecodeRule { metaspace: true, byte_fallback: true, ..Default::default() };
        let mut out = Vec::new();
        for token in ["▁Hello", "<0xE2>", "<0xzz>", "<0xE>", "▁"] {
            rule.append_bytes(token, &mut out);
        }
        assert_eq!(out, b" Hello\xe2<0xzz><0xE> ");
    }
}
