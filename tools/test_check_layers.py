#!/usr/bin/env python3
"""Plants one violation of each kind in a small tree and expects check_layers to name its place;
then the allowed neighbours of each, which must pass."""

import contextlib
import io
import json
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import check_layers  # noqa: E402

RULES = check_layers.Rules(
    json.loads((Path(__file__).resolve().parent / "layers.json").read_text(encoding="utf-8")))


def check(files):
    """The violations in a tree of {path: content}."""
    with tempfile.TemporaryDirectory() as folder:
        for path, content in files.items():
            target = Path(folder) / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(content, encoding="utf-8")
        return check_layers.Checker(folder, RULES).run()


class IncludeRule(unittest.TestCase):
    def refuses(self, path, include, what="may not include"):
        errors = check({path: f"// A file.\n#include {include}\n"}).errors
        self.assertEqual(len(errors), 1, f"{path} includes {include}: {errors}")
        self.assertTrue(errors[0].startswith(f"{path}:2: "), errors[0])
        self.assertIn(what, errors[0])

    def accepts(self, path, include):
        self.assertEqual(check({path: f"#include {include}\n"}).errors, [], f"{path} includes {include}")

    def test_folders_only_look_down(self):
        self.refuses("tessera/layers/norm.cc", '"tessera/state/affine_kv.h"')
        self.refuses("tessera/state/affine_kv.h", '"tessera/layers/norm.h"')
        self.refuses("tessera/kernels/cpu/rope.cc", '"tessera/models/registry.h"')
        self.refuses("tessera/base/file.cc", '"tessera/tensor/shape.h"')
        self.refuses("tessera/models/registry.cc", '"tessera/text/tokenizer_impl.h"')
        self.refuses("tessera/execution/engine.cc", '"tessera/layers/linear.h"')
        self.accepts("tessera/layers/norm.cc", '"tessera/kernels/norm.h"')
        self.accepts("tessera/models/blocks/attention.cc", '"tessera/state/affine_kv.h"')
        self.accepts("tessera/models/blocks/attention.cc", '"tessera/models/registry.h"')

    def test_external_libraries_have_their_places(self):
        self.refuses("tessera/base/file.cc", "<mlx/array.h>")
        self.refuses("tessera/layers/norm.cc", "<mlx/backend/cpu/encoder.h>")
        self.refuses("tessera/layers/norm.cc", '"mlx/backend/cpu/encoder.h"')
        self.refuses("tessera/layers/norm.cc", "<immintrin.h>")
        self.refuses("tessera/tensor/shape.cc", "<nlohmann/json.hpp>")
        self.refuses("tessera/artifacts/gguf.cc", "<mlx/array.h>")
        self.refuses("tessera/artifacts/pull.cc", "<httplib.h>")
        self.refuses("tessera/text/tokenizer.cc", "<mlx/mlx.h>")
        self.refuses("tessera/layers/norm.cc", "<boost/any.hpp>", "unknown external header")
        self.accepts("tessera/kernels/cpu/matmul.cc", "<mlx/backend/cpu/encoder.h>")
        self.accepts("tessera/kernels/cpu/matmul.cc", "<immintrin.h>")
        self.accepts("tessera/layers/norm.cc", "<mlx/fast.h>")
        self.accepts("tessera/artifacts/gguf.cc", "<sys/mman.h>")
        self.accepts("tessera/artifacts/http.cc", "<httplib.h>")
        self.accepts("tessera/text/tokenizer.cc", '"rust/include/tessera_text.h"')

    def test_text_level_headers(self):
        self.refuses("tessera/engine.h", "<mlx/array.h>", "text-level header")
        self.refuses("tessera/engine.h", "<nlohmann/json.hpp>", "text-level header")
        self.refuses("tessera/engine.h", '"tessera/execution/sampler.h"', "text-level header")
        self.refuses("tessera/kernels/rope.cc", '"tessera/engine.h"')
        self.refuses("tessera/models/registry.cc", '"tessera/engine.h"')
        self.refuses("tessera/models/registry.cc", '"tessera/nothing.h"')
        self.accepts("tessera/engine.h", '"tessera/model.h"')
        self.accepts("tessera/kernels/rope.cc", '"tessera/error.h"')
        self.accepts("tessera/models/registry.cc", '"tessera/model.h"')
        self.accepts("tessera/execution/engine.cc", '"tessera/model.h"')
        self.accepts("tessera/models/gguf_vocabulary.cc", '"tessera/tokenizer_source.h"')

    def test_apps_are_users_of_the_text_api(self):
        self.refuses("apps/cli/main.cc", '"tessera/base/env.h"')
        self.refuses("apps/cli/main.cc", "<mlx/mlx.h>")
        self.refuses("apps/server/server.cc", '"apps/cli/flags.h"')
        self.refuses("apps/server/server.cc", "<CLI/CLI.hpp>")
        self.accepts("apps/cli/main.cc", '"tessera/engine.h"')
        self.accepts("apps/cli/main.cc", '"apps/server/server.h"')
        self.accepts("apps/cli/main.cc", "<CLI/CLI.hpp>")
        self.accepts("apps/server/server.cc", "<httplib.h>")

    def test_a_folder_must_be_in_the_table(self):
        self.refuses("tessera/magic/wand.cc", "<vector>", "missing in tools/layers.json")

    def test_comments_do_not_count_and_tests_are_free(self):
        self.assertEqual(check({"tessera/base/a.cc": '/*\n#include <mlx/mlx.h>\n*/ // #include "x"\n'}).errors, [])
        self.accepts("tests/base/a_test.cc", "<mlx/backend/cpu/encoder.h>")
        self.accepts("benchmarks/kernels/a_bench.cc", '"tessera/kernels/cpu/matmul.h"')


class Places(unittest.TestCase):
    def refuses(self, path, code, what):
        errors = check({path: code + "\n"}).errors
        self.assertEqual(len(errors), 1, f"{code}: {errors}")
        self.assertIn(what, errors[0])

    def accepts(self, path, code):
        self.assertEqual(check({path: code + "\n"}).errors, [], code)

    def test_family_names(self):
        for code in ('if (type == "llama") {}', "struct QwenBlock;", "int smollm_size;", "kSmolLM2,",
                     '#include "tessera/kernels/gemma3.h"', "#define TESSERA_GLM 1", 'f("gpt-oss");',
                     "class DeepSeekAttention;", 'f("Phi3ForCausalLM");'):
            self.refuses("tessera/kernels/a.cc", code, "model family")
            self.accepts("tessera/models/a.cc", code)
            self.accepts("tests/kernels/a_test.cc", code)
        for code in ("// as llama.cpp does", "int philox_seed;", 'f("granites");', "int dolphin;"):
            self.accepts("tessera/kernels/a.cc", code)
        self.accepts("tessera/artifacts/default_model.cc", 'f("SmolLM2-135M");')

    def test_environment(self):
        self.refuses("tessera/models/a.cc", 'auto x = std::getenv("HOME");', "environment variable")
        self.refuses("apps/cli/a.cc", 'auto x = getenv ("HOME");', "environment variable")
        self.refuses("rust/src/a.rs", 'let x = std::env::var("HOME");', "environment variable")
        self.accepts("tessera/base/env.cc", 'auto x = std::getenv("HOME");')
        self.accepts("tessera/models/a.cc", '// std::getenv("HOME")')

    def test_printing(self):
        for code in ("std::cout << 1;", "std::cerr << 1;", 'printf("x");', 'std::printf("x");',
                     'fprintf(stderr, "x");', 'std::fputs("x", stdout);', 'fmt::print("x");', 'puts("x");'):
            self.refuses("tessera/models/a.cc", code, "prints")
            self.accepts("apps/cli/a.cc", code)
            self.accepts("tests/models/a_test.cc", code)
        self.refuses("rust/src/a.rs", 'println!("x");', "prints")
        self.accepts("tessera/base/log.cc", 'std::fputs("x", stderr);')
        for code in ('snprintf(b, 9, "x");', "dup2(STDERR_FILENO, 1);", 'f("printf(1)");',
                     "object.printf(1);", "auto c = '\"'; // std::cout"):
            self.accepts("tessera/models/a.cc", code)

    def test_todo(self):
        self.refuses("tessera/models/a.cc", "// TODO: later", "bare TODO")
        self.refuses("tests/models/a_test.cc", "// TODO(me) later", "bare TODO")
        self.accepts("tessera/models/a.cc", "// TODO(123): later")


class Command(unittest.TestCase):
    def test_exit_status(self):
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "tessera" / "base" / "a.cc"
            source.parent.mkdir(parents=True)
            for content, status in (("int a;\n", 0), ("#include <mlx/mlx.h>\n", 1)):
                source.write_text(content, encoding="utf-8")
                with contextlib.redirect_stdout(io.StringIO()) as output:
                    self.assertEqual(check_layers.main([folder]), status)
                self.assertIn(f"1 files, {status} violations", output.getvalue())


class Sizes(unittest.TestCase):
    def test_limits(self):
        self.assertEqual(check({"tessera/base/a.cc": "\n" * 400}).warnings, [])
        self.assertEqual(len(check({"tessera/base/a.cc": "\n" * 401}).warnings), 1)
        self.assertEqual(check({"tessera/base/a.cc": "\n" * 800}).errors, [])
        self.assertIn("801 lines", check({"tessera/base/a.cc": "\n" * 801}).errors[0])
        self.assertIn("801 lines", check({"scripts/build": "\n" * 801}).errors[0])
        self.assertEqual(check({"tests/base/a_test.cc": "\n" * 1200}).errors, [])
        self.assertIn("1201 lines", check({"tests/base/a_test.cc": "\n" * 1201}).errors[0])

    def test_folder_names(self):
        self.assertIn("folder named 'utils'", check({"tessera/base/utils/a.cc": "\n"}).errors[0])
        self.assertIn("folder named 'helpers'", check({"tests/helpers/a.cc": "\n"}).errors[0])


if __name__ == "__main__":
    unittest.main()
