//! A tokenizer from the vocabulary of a GGUF file (`tokenizer.ggml.*`), configured as the model's
//! own `tokenizer.json` is. Reading GGUF is not done here: the vocabulary arrives as plain data.

use serde::de::DeserializeOwned;
use serde_json::{json, Value};
use tokenizers::models::bpe::{Merges, Vocab, BPE};
use tokenizers::{
    AddedToken, DecoderWrapper, NormalizerWrapper, PostProcessorWrapper, PreTokenizerWrapper,
    Tokenizer,
};

use crate::error::{Code, Result, TextError};
use crate::pre_tokenizers;
use crate::token_bytes::DecodeRule;
use crate::tokenizer::{NamedTokens, TextTokenizer};

/// Token types of GGUF (`tokenizer.ggml.token_type`) that need care here.
const TYPE_NORMAL: i32 = 1;
const TYPE_UNKNOWN: i32 = 2;
const TYPE_CONTROL: i32 = 3;
const TYPE_USER_DEFINED: i32 = 4;

/// Longest piece that merges are derived for: the work grows with the square of it. SentencePiece's
/// own limit is 16 characters where a training run does not raise it.
const MAX_PIECE_BYTES: usize = 1024;

/// The fields of `tokenizer.ggml.*`; absent ones are empty or `None`.
#[derive(Clone, Debug, Default)]
pub struct GgufVocabulary<'a> {
    pub model: &'a str,
    pub pre: &'a str,
    pub tokens: Vec<&'a [u8]>,
    pub scores: &'a [f32],
    pub types: &'a [i32],
    pub merges: Vec<&'a [u8]>,
    pub add_bos: Option<bool>,
    pub add_eos: Option<bool>,
    pub add_space_prefix: Option<bool>,
    pub bos: Option<u32>,
    pub eos: Option<u32>,
    pub eot: Option<u32>,
    pub eom: Option<u32>,
    pub unk: Option<u32>,
    pub pad: Option<u32>,
}

/// Builds the tokenizer.
///
/// Fails with InvalidArtifact where the fields contradict each other and with Unsupported for a
/// model other than "gpt2" and "llama" or for a pre-tokenizer that is not in
/// `pre_tokenizers::NAMES`.
pub fn build(vocabulary: &GgufVocabulary) -> Result<TextTokenizer> {
    let mut v = vocabulary.clone();
    match v.model {
        "gpt2" => {}
        "llama" => {
            // The ids that llama.cpp assumes for SentencePiece files without these fields.
            v.bos = v.bos.or(Some(1));
            v.eos = v.eos.or(Some(2));
            v.unk = v.unk.or(Some(0));
        }
        other => {
            return Err(TextError::unsupported(format!(
                "tokenizer.ggml.model; expected gpt2 or llama, got {other:?}"
            )))
        }
    }
    let spellings = spellings(&v)?;
    check_ids(&v)?;
    match v.model {
        "gpt2" => build_byte_level(&v, spellings),
        _ => build_sentencepiece(&v, spellings),
    }
}

fn build_byte_level(v: &GgufVocabulary, spellings: Vec<String>) -> Result<TextTokenizer> {
    let name = if v.pre.is_empty() { "default" } else { v.pre };
    let rule = pre_tokenizers::find(name).ok_or_else(|| {
        TextError::unsupported(format!(
            "tokenizer.ggml.pre; expected one of {}, got {name:?}",
            pre_tokenizers::NAMES.join(", ")
        ))
    })?;
    if v.merges.is_empty() {
        return Err(TextError::artifact("tokenizer.ggml.merges; expected merges for model gpt2, got none"));
    }
    let vocab = vocab_map(&spellings);
    let merges = parse_merges(&v.merges, &vocab)?;
    let bpe = BPE::builder().vocab_and_merges(vocab, merges).ignore_merges(rule.ignore_merges);
    let mut tokenizer = Tokenizer::new(bpe.build().map_err(inconsistent)?);
    if rule.nfc {
        set_normalizer(&mut tokenizer, json!({"type": "NFC"}))?;
    }
    let pre_tokenizer = rule.to_json(v.add_space_prefix.unwrap_or(false));
    tokenizer.with_pre_tokenizer(Some(parse::<PreTokenizerWrapper>(pre_tokenizer)?));
    let decoder = json!({"type": "ByteLevel", "add_prefix_space": true,
                         "trim_offsets": true, "use_regex": true});
    finish(v, tokenizer, spellings, decoder, rule.adds_bos)
}

fn build_sentencepiece(v: &GgufVocabulary, spellings: Vec<String>) -> Result<TextTokenizer> {
    let vocab = vocab_map(&spellings);
    let merges = if v.merges.is_empty() {
        if v.scores.is_empty() {
            return Err(TextError::artifact("tokenizer.ggml.scores; expected scores for model llama, got none"));
        }
        merges_from_scores(v, &spellings, &vocab)?
    } else {
        parse_merges(&v.merges, &vocab)?
    };
    let has_bytes = (0..=255).all(|b| vocab.contains_key(&format!("<0x{b:02X}>")));
    let mut bpe = BPE::builder()
        .vocab_and_merges(vocab, merges)
        .fuse_unk(true)
        .byte_fallback(has_bytes);
    if let Some(unk) = v.unk {
        bpe = bpe.unk_token(spellings[unk as usize].clone());
    }
    let mut tokenizer = Tokenizer::new(bpe.build().map_err(inconsistent)?);

    let prefix = v.add_space_prefix.unwrap_or(true);
    let replace = json!({"type": "Replace", "pattern": {"String": " "}, "content": "\u{2581}"});
    let mut normalizers = vec![];
    let mut decoders = vec![
        json!({"type": "Replace", "pattern": {"String": "\u{2581}"}, "content": " "}),
        json!({"type": "ByteFallback"}),
        json!({"type": "Fuse"}),
    ];
    if prefix {
        normalizers.push(json!({"type": "Prepend", "prepend": "\u{2581}"}));
        decoders.push(json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
    }
    normalizers.push(replace);
    set_normalizer(&mut tokenizer, json!({"type": "Sequence", "normalizers": normalizers}))?;
    finish(v, tokenizer, spellings, json!({"type": "Sequence", "decoders": decoders}), true)
}

/// What both kinds share: added tokens, BOS and EOS, the decoder, the names of special tokens.
fn finish(
    v: &GgufVocabulary,
    mut tokenizer: Tokenizer,
    spellings: Vec<String>,
    decoder: Value,
    adds_bos_by_default: bool,
) -> Result<TextTokenizer> {
    let mut added = Vec::new();
    for (token, kind) in spellings.iter().zip(v.types) {
        match *kind {
            // An unknown token is special: it must neither be split in text nor be decoded away.
            TYPE_UNKNOWN | TYPE_CONTROL => {
                added.push(AddedToken::from(token.clone(), true).normalized(false));
            }
            TYPE_USER_DEFINED => {
                added.push(AddedToken::from(token.clone(), false).normalized(false));
            }
            _ => {}
        }
    }
    tokenizer.add_tokens(added).map_err(inconsistent)?;

    let bos = v.bos.filter(|_| v.add_bos.unwrap_or(adds_bos_by_default));
    let eos = v.eos.filter(|_| v.add_eos.unwrap_or(false));
    if v.add_bos == Some(true) && v.bos.is_none() {
        return Err(TextError::artifact("tokenizer.ggml.bos_token_id; expected an id as add_bos_token is true, got none"));
    }
    if v.add_eos == Some(true) && v.eos.is_none() {
        return Err(TextError::artifact("tokenizer.ggml.eos_token_id; expected an id as add_eos_token is true, got none"));
    }
    if bos.is_some() || eos.is_some() {
        let template = around_text(bos, eos, &spellings);
        tokenizer.with_post_processor(Some(parse::<PostProcessorWrapper>(template)?));
    }
    let rule = DecodeRule::from_json(&decoder)?;
    tokenizer.with_decoder(Some(parse::<DecoderWrapper>(decoder)?));

    let mut named = NamedTokens {
        bos: v.bos,
        eos: v.eos,
        ends: [v.eos, v.eot, v.eom].into_iter().flatten().collect(),
        ..Default::default()
    };
    let names = [("bos_token", v.bos), ("eos_token", v.eos), ("unk_token", v.unk), ("pad_token", v.pad)];
    for (name, id) in names {
        if let Some(id) = id {
            named.template_variables.insert(name.into(), spellings[id as usize].clone().into());
        }
    }
    TextTokenizer::assemble(tokenizer, rule, &spellings, named)
}

/// The post-processor that puts BOS before and EOS after a text.
fn around_text(bos: Option<u32>, eos: Option<u32>, spellings: &[String]) -> Value {
    let mut special_tokens = serde_json::Map::new();
    let mut single = Vec::new();
    let mut place = |id: Option<u32>, single: &mut Vec<Value>| {
        if let Some(id) = id {
            let name = &spellings[id as usize];
            special_tokens.insert(name.clone(), json!({"id": name, "ids": [id], "tokens": [name]}));
            single.push(json!({"SpecialToken": {"id": name, "type_id": 0}}));
        }
    };
    place(bos, &mut single);
    single.push(json!({"Sequence": {"id": "A", "type_id": 0}}));
    place(eos, &mut single);
    json!({"type": "TemplateProcessing", "single": single,
           "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
           "special_tokens": special_tokens})
}

fn spellings(v: &GgufVocabulary) -> Result<Vec<String>> {
    if v.tokens.is_empty() {
        return Err(TextError::artifact("tokenizer.ggml.tokens; expected a vocabulary, got none"));
    }
    let lengths = [("scores", v.scores.len()), ("token_type", v.types.len())];
    for (field, length) in lengths {
        if length != 0 && length != v.tokens.len() {
            return Err(TextError::artifact(format!(
                "tokenizer.ggml.{field}; expected {} entries as in tokenizer.ggml.tokens, got {length}",
                v.tokens.len()
            )));
        }
    }
    v.tokens
        .iter()
        .enumerate()
        .map(|(id, bytes)| {
            String::from_utf8(bytes.to_vec()).map_err(|_| {
                TextError::artifact(format!("tokenizer.ggml.tokens[{id}] is not UTF-8"))
            })
        })
        .collect()
}

fn check_ids(v: &GgufVocabulary) -> Result<()> {
    let ids = [
        ("bos", v.bos), ("eos", v.eos), ("eot", v.eot), ("eom", v.eom),
        ("unknown", v.unk), ("padding", v.pad),
    ];
    for (field, id) in ids {
        if id.is_some_and(|id| id as usize >= v.tokens.len()) {
            return Err(TextError::artifact(format!(
                "tokenizer.ggml.{field}_token_id; expected an id below {}, got {}",
                v.tokens.len(),
                id.unwrap_or_default()
            )));
        }
    }
    Ok(())
}

/// Where a spelling occurs twice the last id wins, as in a `tokenizer.json`.
fn vocab_map(spellings: &[String]) -> Vocab {
    let numbered = spellings.iter().enumerate();
    numbered.filter(|(_, t)| !t.is_empty()).map(|(id, t)| (t.clone(), id as u32)).collect()
}

/// Splits "left right". Each part and their concatenation must be tokens: the BPE builder relies
/// on it, and a table that breaks it does not belong to this vocabulary.
fn parse_merges(lines: &[&[u8]], vocab: &Vocab) -> Result<Merges> {
    let mut merges = Merges::with_capacity(lines.len());
    for (index, line) in lines.iter().enumerate() {
        let bad = |why: &str| TextError::artifact(format!("tokenizer.ggml.merges[{index}] {why}"));
        let line = std::str::from_utf8(line).map_err(|_| bad("is not UTF-8"))?;
        // A part may itself begin with a space in SentencePiece merges, hence not at position 0.
        let space = line
            .char_indices()
            .skip(1)
            .find(|&(_, c)| c == ' ')
            .ok_or_else(|| bad("; expected two tokens separated by a space"))?;
        let (left, right) = (&line[..space.0], &line[space.0 + 1..]);
        for part in [left, right, &[left, right].concat()] {
            if !vocab.contains_key(part) {
                return Err(bad(&format!("names {part:?}, which is not in tokenizer.ggml.tokens")));
            }
        }
        merges.push((left.to_owned(), right.to_owned()));
    }
    Ok(merges)
}

/// SentencePiece merges whatever adjacent pair forms the piece with the highest score. As BPE
/// merges that is: every split of every piece into two pieces, by descending score of the whole.
/// Ties stay in the order of the ids of whole, left and right, as in the `tokenizer.json` files that
/// Hugging Face made of SentencePiece models (`SentencePieceExtractor`, `convert_slow_tokenizer.py`);
/// runs of spaces, all of one score, depend on it.
fn merges_from_scores(v: &GgufVocabulary, spellings: &[String], vocab: &Vocab) -> Result<Merges> {
    struct Split<'a> {
        score: f32,
        left: &'a str,
        right: &'a str,
    }
    let mut splits = Vec::new();
    for (id, piece) in spellings.iter().enumerate() {
        // Control, byte and unused pieces are never formed from text.
        let kind = v.types.get(id).copied().unwrap_or(TYPE_NORMAL);
        if kind != TYPE_NORMAL && kind != TYPE_USER_DEFINED {
            continue;
        }
        if piece.len() > MAX_PIECE_BYTES {
            return Err(TextError::artifact(format!(
                "tokenizer.ggml.tokens[{id}]; expected at most {MAX_PIECE_BYTES} bytes, got {}",
                piece.len()
            )));
        }
        let mut own: Vec<(u32, u32, Split)> = piece
            .char_indices()
            .skip(1)
            .filter_map(|(at, _)| {
                let (left, right) = piece.split_at(at);
                let ids = (*vocab.get(left)?, *vocab.get(right)?);
                Some((ids.0, ids.1, Split { score: v.scores[id], left, right }))
            })
            .collect();
        own.sort_by_key(|&(left, right, _)| (left, right));
        splits.extend(own.into_iter().map(|(_, _, split)| split));
    }
    splits.sort_by(|a, b| b.score.total_cmp(&a.score));
    Ok(splits.into_iter().map(|s| (s.left.to_owned(), s.right.to_owned())).collect())
}

fn set_normalizer(tokenizer: &mut Tokenizer, normalizer: Value) -> Result<()> {
    tokenizer
        .with_normalizer(Some(parse::<NormalizerWrapper>(normalizer)?))
        .map(|_| ())
        .map_err(inconsistent)
}

/// The configurations above are ours, so that failing to read one is a bug.
fn parse<T: DeserializeOwned>(json: Value) -> Result<T> {
    serde_json::from_value(json)
        .map_err(|e| TextError::new(Code::Internal, format!("tokenizer configuration: {e}")))
}

fn inconsistent(error: tokenizers::Error) -> TextError {
    TextError::artifact(format!("tokenizer.ggml vocabulary is inconsistent: {error}"))
}

#[cfg(test)]
#[path = "gguf_tests.rs"]
mod tests;
