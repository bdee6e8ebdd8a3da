"""The two reference engines in float32: Hugging Face transformers and mlx-lm."""

import mlx.core as mx
import numpy as np
import torch
import transformers
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.utils import load_model

torch.set_num_threads(1)  # one order of summation, so that a golden is reproducible
torch.set_grad_enabled(False)
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()


class HuggingFace:
    """A causal language model of transformers, eager attention, float32."""

    def __init__(self, model):
        self.model = model.to(torch.float32).eval()

    @classmethod
    def from_directory(cls, directory):
        return cls(
            transformers.AutoModelForCausalLM.from_pretrained(
                str(directory), dtype=torch.float32, attn_implementation="eager"
            )
        )

    @classmethod
    def from_weights(cls, config, weights):
        """`weights`: name -> float32 array; a tied output projection is left out."""
        fields = {k: v for k, v in config.items() if k not in ("quantization", "torch_dtype", "dtype")}
        parsed = transformers.AutoConfig.for_model(**fields)
        parsed._attn_implementation = "eager"
        model = transformers.AutoModelForCausalLM.from_config(parsed)
        state = {k: torch.from_numpy(np.array(v, dtype=np.float32)) for k, v in weights.items()}
        if config["tie_word_embeddings"]:
            state["lm_head.weight"] = state["model.embed_tokens.weight"]
        model.load_state_dict(state, strict=True)
        return cls(model)

    def logits(self, ids):
        """float32 [len(ids), vocabulary]"""
        return self.model(torch.tensor([list(ids)])).logits[0].numpy()

    def hidden(self, ids):
        """float32 [len(ids), hidden]: after the final norm."""
        return self.model.model(torch.tensor([list(ids)])).last_hidden_state[0].numpy()

    def steps(self, ids):
        """A function that takes new ids and returns the logits after the last of them."""
        cache = transformers.DynamicCache()

        def step(new):
            out = self.model(torch.tensor([list(new)]), cache=cache, use_cache=True)
            return out.logits[0, -1].numpy()

        return step


class MlxLm:
    """A model of mlx-lm with every floating array widened to float32."""

    def __init__(self, directory, overrides=None):
        self.model, _ = load_model(directory, model_config=overrides)
        self.model.set_dtype(mx.float32)
        self.model.eval()

    def logits(self, ids):
        return np.array(self.model(mx.array([list(ids)]))[0])

    def steps(self, ids):
        cache = make_prompt_cache(self.model)

        def step(new):
            return np.array(self.model(mx.array([list(new)]), cache=cache)[0, -1])

        return step


def greedy(engine, prompt, count):
    """(ids, logits): `count` argmax ids, and the logits that each was chosen from. EOS does not stop."""
    step, feed, ids, rows = engine.steps(prompt), list(prompt), [], []
    for _ in range(count):
        row = step(feed)
        ids.append(int(np.argmax(row)))
        rows.append(row)
        feed = [ids[-1]]
    return ids, np.stack(rows)


def gaps(rows):
    """The distance of the best logit from the second best, for each row."""
    best = np.sort(rows, axis=-1)
    return (best[:, -1] - best[:, -2]).astype(np.float32)
