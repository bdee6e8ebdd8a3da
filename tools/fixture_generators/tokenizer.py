"""The small byte-level BPE tokenizer that every tiny model uses, and its golden."""

import json

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from .files import write_json

VOCAB_SIZE = 384
END_OF_TEXT, IM_START, IM_END = 0, 1, 2
SPECIAL_TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TRAINING_CHARACTERS = 30_000

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)

GOLDEN_TEXTS = [
    "",
    "Tom",
    " Tom said nothing.",
    "The old lady pulled her spectacles down and looked over them.",
    "two  spaces,\ttab,\nnewline and trailing space ",
    "digits 1 23 456 and 3.14159",
    "don't, we'll, THEY'RE",
    "caf\u00e9 na\u00efve \u00c5ngstr\u00f6m e\u0301",
    "\u4e1c\u4eac \u6771\u4eac \ud55c\uad6d\uc5b4",
    "emoji \U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467 end",
    "<|im_start|>user\nhello<|im_end|>\n",
    "almost <|im_start| > special",
    "\u0000\u007f control",
]

GOLDEN_CHATS = [
    [{"role": "user", "content": "Hello"}],
    [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What is whitewash?"},
        {"role": "assistant", "content": "Lime and water."},
        {"role": "user", "content": "Thanks!"},
    ],
]


def train(text):
    """A tokenizer in the manner of SmolLM2's: single digits, then byte-level BPE."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE,
        show_progress=False,
        special_tokens=[AddedToken(t, special=True, normalized=False) for t in SPECIAL_TOKENS],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )
    tokenizer.train_from_iterator([text[:TRAINING_CHARACTERS]], trainer)
    assert tokenizer.get_vocab_size() == VOCAB_SIZE
    return tokenizer


def write_tokenizer(directory, tokenizer):
    """tokenizer.json and tokenizer_config.json, as a Hugging Face checkpoint has them."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "tokenizer.json").write_text(tokenizer.to_str(pretty=False) + "\n", encoding="utf-8")
    decoder = {
        str(i): {
            "content": token,
            "lstrip": False,
            "normalized": False,
            "rstrip": False,
            "single_word": False,
            "special": True,
        }
        for i, token in enumerate(SPECIAL_TOKENS)
    }
    write_json(
        directory / "tokenizer_config.json",
        {
            "add_bos_token": False,
            "add_prefix_space": False,
            "added_tokens_decoder": decoder,
            "bos_token": SPECIAL_TOKENS[IM_START],
            "chat_template": CHAT_TEMPLATE,
            "clean_up_tokenization_spaces": False,
            "eos_token": SPECIAL_TOKENS[IM_END],
            "model_max_length": 512,
            "pad_token": SPECIAL_TOKENS[IM_END],
            "tokenizer_class": "PreTrainedTokenizerFast",
            "unk_token": SPECIAL_TOKENS[END_OF_TEXT],
        },
    )


def gguf_vocabulary(tokenizer):
    """(tokens in id order, merges as "left right") for tokenizer.ggml.*"""
    content = json.loads(tokenizer.to_str())
    tokens = [None] * VOCAB_SIZE
    for token, index in tokenizer.get_vocab().items():
        tokens[index] = token
    merges = [m if isinstance(m, str) else " ".join(m) for m in content["model"]["merges"]]
    return tokens, merges


def write_golden(path, directory):
    """Ids and renderings of the texts above, by transformers from the written files."""
    fast = PreTrainedTokenizerFast.from_pretrained(str(directory))
    texts = []
    for text in GOLDEN_TEXTS:
        ids = fast(text, add_special_tokens=False)["input_ids"]
        texts.append({"text": text, "ids": ids, "decoded": fast.decode(ids)})
    chats = []
    for messages in GOLDEN_CHATS:
        for prompt in (False, True):
            rendered = fast.apply_chat_template(messages, tokenize=False, add_generation_prompt=prompt)
            chats.append(
                {
                    "messages": messages,
                    "add_generation_prompt": prompt,
                    "rendered": rendered,
                    "ids": fast(rendered, add_special_tokens=False)["input_ids"],
                }
            )
    write_json(path, {"texts": texts, "chats": chats}, compact_numbers=True)
