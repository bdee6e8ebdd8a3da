use super::*;

/// The alphabet, three merges, two control tokens and a user-defined one.
struct ByteLevelFile {
    tokens: Vec<String>,
    types: Vec<i32>,
    merges: Vec<&'static str>,
}

impl ByteLevelFile {
    fn new() -> Self {
        let mut alphabet: Vec<String> = tokenizers::pre_tokenizers::byte_level::ByteLevel::alphabet()
            .into_iter()
            .map(String::from)
            .collect();
        alphabet.sort_unstable();
        let mut tokens = vec!["<|endoftext|>".to_owned(), "<|im_end|>".to_owned()];
        tokens.extend(alphabet);
        tokens.extend(["ab", "Ġab", "12", "<tool>"].map(String::from));
        let mut types = vec![TYPE_NORMAL; tokens.len()];
        types[0] = TYPE_CONTROL;
        types[1] = TYPE_CONTROL;
        *types.last_mut().unwrap() = TYPE_USER_DEFINED;
        Self { tokens, types, merges: vec!["a b", "Ġ ab", "1 2"] }
    }

    fn vocabulary(&self) -> GgufVocabulary<'_> {
        GgufVocabulary {
            model: "gpt2",
            pre: "smollm",
            tokens: self.tokens.iter().map(String::as_bytes).collect(),
            types: &self.types,
            merges: self.merges.iter().map(|m| m.as_bytes()).collect(),
            bos: Some(0),
            eos: Some(1),
            ..Default::default()
        }
    }

    fn id(&self, token: &str) -> u32 {
        self.tokens.iter().position(|t| t == token).unwrap() as u32
    }
}

#[test]
fn byte_level_follows_the_named_pre_tokenizer() {
    let file = ByteLevelFile::new();
    let id = |t: &str| file.id(t);
    let encode = |pre, text: &str| {
        let tokenizer = build(&GgufVocabulary { pre, ..file.vocabulary() }).unwrap();
        tokenizer.encode(text, true, true).unwrap()
    };
    // Digits stay apart with smollm and merge with gpt-2.
    assert_eq!(encode("smollm", "ab ab12"), [id("ab"), id("Ġab"), id("1"), id("2")]);
    assert_eq!(encode("gpt-2", "ab12"), [id("ab"), id("12")]);
    assert_eq!(encode("", "ab12"), [id("ab"), id("12")]);
    assert_eq!(encode("llama-bpe", "ab"), [0, id("ab")]);
    assert_eq!(encode("smollm", "ab<|im_end|><tool>"), [id("ab"), 1, id("<tool>")]);
}

#[test]
fn bos_and_eos_follow_the_file() {
    let file = ByteLevelFile::new();
    let v = GgufVocabulary { add_bos: Some(true), add_eos: Some(true), ..file.vocabulary() };
    let tokenizer = build(&v).unwrap();
    assert_eq!(tokenizer.encode("ab", true, true).unwrap(), [0, file.id("ab"), 1]);
    assert_eq!(tokenizer.encode("ab", false, true).unwrap(), [file.id("ab")]);
    assert_eq!(tokenizer.named.ends, [0, 1]);
    assert_eq!(tokenizer.named.template_variables["eos_token"], "<|im_end|>");
    let no_id = GgufVocabulary { bos: None, ..v };
    assert!(build(&no_id).err().unwrap().message.contains("bos_token_id"));
}

#[test]
fn broken_vocabularies_are_refused() {
    let file = ByteLevelFile::new();
    let refused = |v: GgufVocabulary, part: &str| {
        let error = build(&v).err().unwrap_or_else(|| panic!("accepted; expected {part}"));
        assert!(error.message.contains(part), "{} lacks {part}", error.message);
        error.code
    };
    let good = || file.vocabulary();
    assert_eq!(refused(GgufVocabulary { model: "bert", ..good() }, "bert"), Code::Unsupported);
    assert_eq!(refused(GgufVocabulary { pre: "nope", ..good() }, "smollm"), Code::Unsupported);
    let artifact = [
        refused(GgufVocabulary { tokens: vec![], ..good() }, "tokens"),
        refused(GgufVocabulary { scores: &[1.0], ..good() }, "scores"),
        refused(GgufVocabulary { types: &[1], ..good() }, "token_type"),
        refused(GgufVocabulary { merges: vec![], ..good() }, "merges"),
        refused(GgufVocabulary { merges: vec![b"ab"], ..good() }, "merges[0]"),
        refused(GgufVocabulary { merges: vec![b"a zz"], ..good() }, "\"zz\""),
        refused(GgufVocabulary { merges: vec![b"a c"], ..good() }, "\"ac\""),
        refused(GgufVocabulary { merges: vec![b"\xff \xff"], ..good() }, "UTF-8"),
        refused(GgufVocabulary { tokens: vec![b"\xff"], types: &[], ..good() }, "tokens[0]"),
        refused(GgufVocabulary { eot: Some(100_000), ..good() }, "eot_token_id"),
        refused(GgufVocabulary { model: "llama", merges: vec![], ..good() }, "scores"),
    ];
    assert!(artifact.iter().all(|&c| c == Code::InvalidArtifact));
}

/// Pieces of a SentencePiece file with scores as its trainer writes them.
fn sentencepiece() -> (Vec<String>, Vec<f32>, Vec<i32>) {
    let mut tokens: Vec<String> = ["<unk>", "<s>", "</s>"].map(String::from).to_vec();
    let mut types = vec![TYPE_UNKNOWN, TYPE_CONTROL, TYPE_CONTROL];
    tokens.extend((0..=255).map(|b| format!("<0x{b:02X}>")));
    types.extend([6; 256]);
    tokens.extend(["▁a", "bc", "▁ab", "▁abc", "▁", "a", "b", "c"].map(String::from));
    types.resize(tokens.len(), TYPE_NORMAL);
    let scores = (0..tokens.len()).map(|i| if i < 259 { 0.0 } else { 259.0 - i as f32 }).collect();
    (tokens, scores, types)
}

#[test]
fn sentencepiece_merges_come_from_scores() {
    let (tokens, scores, types) = sentencepiece();
    let v = GgufVocabulary {
        model: "llama",
        tokens: tokens.iter().map(String::as_bytes).collect(),
        scores: &scores,
        types: &types,
        ..Default::default()
    };
    let tokenizer = build(&v).unwrap();
    let id = |t: &str| tokens.iter().position(|x| x == t).unwrap() as u32;
    let encode = |text: &str| tokenizer.encode(text, true, true).unwrap();
    assert_eq!(encode("abc"), [1, id("▁abc")]);
    assert_eq!(encode("bc ab"), [1, id("▁"), id("bc"), id("▁ab")]);
    // U+00E9 is not a piece: two bytes.
    assert_eq!(encode("é"), [1, id("▁"), id("<0xC3>"), id("<0xA9>")]);
    assert_eq!(encode("</s>"), [1, 2]);
    assert!(!tokenizer.encode("</s>", true, false).unwrap().contains(&2));
    assert!(tokenizer.rule.strips_leading_space && tokenizer.rule.byte_fallback);

    let ids = encode("abc é bc");
    assert_eq!(tokenizer.reference_decode(&ids, true), "abc é bc");

    let no_prefix = build(&GgufVocabulary { add_space_prefix: Some(false), ..v }).unwrap();
    assert_eq!(no_prefix.encode("bc", true, true).unwrap(), [1, id("bc")]);
    assert!(!no_prefix.rule.strips_leading_space);
}

#[test]
fn long_pieces_are_refused() {
    let (mut tokens, mut scores, mut types) = sentencepiece();
    tokens.push("a".repeat(MAX_PIECE_BYTES));
    scores.push(-1.0);
    types.push(TYPE_NORMAL);
    let load = |tokens: &[String]| {
        build(&GgufVocabulary {
            model: "llama",
            tokens: tokens.iter().map(String::as_bytes).collect(),
            scores: &scores,
            types: &types,
            ..Default::default()
        })
    };
    load(&tokens).unwrap();
    tokens.last_mut().unwrap().push('a');
    let error = load(&tokens).err().unwrap();
    assert_eq!(error.code, Code::InvalidArtifact);
    assert!(error.message.contains(&format!("tokens[{}]", tokens.len() - 1)), "{error}");
}
