//! The pre-tokenizers that GGUF files name in `tokenizer.ggml.pre`, as the models' own
//! `tokenizer.json` files spell them. Names are llama.cpp's (`src/llama-vocab.cpp`); where its
//! splitting differs from Hugging Face (normalization, mostly), Hugging Face is followed.

use serde_json::{json, Value};

/// How the text of a byte-level BPE vocabulary is normalized and split before merging.
pub struct PreTokenizer {
    /// Steps before `ByteLevel`, each as a `tokenizer.json` pre-tokenizer.
    steps: Steps,
    /// Unicode NFC before anything else.
    pub nfc: bool,
    /// A word that is a token as a whole is taken without merging (`model.ignore_merges`).
    pub ignore_merges: bool,
    /// Whether BOS is prepended when the file has no `tokenizer.ggml.add_bos_token`.
    pub adds_bos: bool,
}

enum Steps {
    /// GPT-2's own expression, inside `ByteLevel`.
    Gpt2,
    /// Every digit alone, then GPT-2's expression.
    DigitsThenGpt2,
    /// These expressions in turn, each isolating its matches.
    Split(&'static [&'static str]),
}

const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN35: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const GPT4O: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const DEEPSEEK_V3: [&str; 3] = [
    r"\p{N}{1,3}",
    "[\u{4e00}-\u{9fa5}\u{3040}-\u{309f}\u{30a0}-\u{30ff}]+",
    r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##,
];

/// The supported names; several share one rule.
pub const NAMES: [&str; 25] = [
    "codeshell", "command-r", "dbrx", "deepseek-r1-qwen", "deepseek-v3", "default", "falcon3",
    "gpt-2", "gpt-4o", "lfm2", "llama-bpe", "llama-v3", "llama3", "llama4", "mpt", "olmo",
    "phi-2", "qwen2", "qwen35", "refact", "smaug-bpe", "smollm", "stablelm2", "starcoder",
    "tekken",
];

/// Finds a pre-tokenizer by the name in `tokenizer.ggml.pre`; `None` for a name that is not known.
pub fn find(name: &str) -> Option<PreTokenizer> {
    let plain = |steps| PreTokenizer { steps, nfc: false, ignore_merges: false, adds_bos: false };
    Some(match name {
        // Files without a name, or with "default", predate the field; GPT-2's rule is what their
        // own tokenizers used unless the file is older than its model's proper conversion.
        "default" | "gpt-2" | "phi-2" | "mpt" | "olmo" => plain(Steps::Gpt2),
        "smollm" | "starcoder" | "refact" | "codeshell" => plain(Steps::DigitsThenGpt2),
        "command-r" => PreTokenizer { nfc: true, adds_bos: true, ..plain(Steps::DigitsThenGpt2) },
        "llama3" | "llama-v3" | "llama-bpe" | "lfm2" => PreTokenizer {
            ignore_merges: true,
            adds_bos: true,
            ..plain(Steps::Split(&[LLAMA3]))
        },
        "falcon3" => PreTokenizer { ignore_merges: true, ..plain(Steps::Split(&[LLAMA3])) },
        "dbrx" | "smaug-bpe" => plain(Steps::Split(&[LLAMA3])),
        "qwen2" | "deepseek-r1-qwen" => PreTokenizer { nfc: true, ..plain(Steps::Split(&[QWEN2])) },
        "qwen35" => PreTokenizer { nfc: true, ..plain(Steps::Split(&[QWEN35])) },
        "stablelm2" => plain(Steps::Split(&[QWEN2])),
        "gpt-4o" | "llama4" => plain(Steps::Split(&[GPT4O])),
        "tekken" => PreTokenizer {
            ignore_merges: true,
            adds_bos: true,
            ..plain(Steps::Split(&[TEKKEN]))
        },
        "deepseek-v3" => plain(Steps::Split(&DEEPSEEK_V3)),
        _ => return None,
    })
}

impl PreTokenizer {
    /// The rule in the form of `pre_tokenizer` in a `tokenizer.json`.
    pub fn to_json(&self, add_prefix_space: bool) -> Value {
        let byte_level = |use_regex: bool| {
            json!({"type": "ByteLevel", "add_prefix_space": add_prefix_space,
                   "trim_offsets": false, "use_regex": use_regex})
        };
        match self.steps {
            Steps::Gpt2 => byte_level(true),
            Steps::DigitsThenGpt2 => json!({"type": "Sequence", "pretokenizers": [
                {"type": "Digits", "individual_digits": true}, byte_level(true)]}),
            Steps::Split(expressions) => {
                let mut steps: Vec<Value> = expressions
                    .iter()
                    .map(|e| {
                        json!({"type": "Split", "pattern": {"Regex": e},
                               "behavior": "Isolated", "invert": false})
                    })
                    .collect();
                steps.push(byte_level(false));
                json!({"type": "Sequence", "pretokenizers": steps})
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokenizers::PreTokenizerWrapper;

    #[test]
    fn every_listed_name_is_found_and_compiles() {
        for name in NAMES {
            let rule = find(name).unwrap_or_else(|| panic!("{name} is listed but not found"));
            let json = rule.to_json(false).to_string();
            assert!(serde_json::from_str::<PreTokenizerWrapper>(&json).is_ok(), "{name}: {json}");
        }
        assert!(find("llama-spm").is_none());
    }
}
