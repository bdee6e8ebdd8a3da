#include "tessera/artifacts/tokenizer_files.h"

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "tessera/artifacts/gguf.h"
#include "tessera/artifacts/json_fields.h"
#include "tessera/artifacts/json_reader.h"
#include "tessera/base/check.h"
#include "tessera/base/file.h"

namespace tessera::artifacts {
namespace {

namespace fs = std::filesystem;
using base::fail_artifact;
using nlohmann::json;

constexpr const char* kWhere = "[tokenizer_files.read]";

/// The text of a file that may be missing: "" then.
std::string optional_text(const fs::path& path) { return base::read_optional_file(path).value_or(""); }

std::string folder_template(const fs::path& folder, const std::string& tokenizer_config_json) {
  if (std::string text = optional_text(folder / "chat_template.jinja"); !text.empty()) return text;
  const fs::path own = folder / "chat_template.json";
  if (const std::string text = optional_text(own); !text.empty()) {
    if (std::string found = chat_template_in(text, own.string()); !found.empty()) return found;
  }
  if (tokenizer_config_json.empty()) return "";
  return chat_template_in(tokenizer_config_json, (folder / "tokenizer_config.json").string());
}

TokenizerSource read_folder(const fs::path& folder) {
  TokenizerSource result;
  result.origin = folder.string();
  result.tokenizer_json = optional_text(folder / "tokenizer.json");
  if (result.tokenizer_json.empty()) {
    std::error_code ignored;
    if (fs::is_regular_file(folder / "tokenizer.model", ignored)) {
      base::fail_unsupported(kWhere, " ", folder.string(),
                             " has only tokenizer.model; expected tokenizer.json, the fast tokenizer's file");
    }
    fail_artifact(kWhere, " ", folder.string(), ": tokenizer.json is missing");
  }
  result.tokenizer_config = optional_text(folder / "tokenizer_config.json");
  result.chat_template = folder_template(folder, result.tokenizer_config);
  return result;
}

TokenizerSource read_gguf(const fs::path& path) {
  const auto mapped = base::MappedFile::open(path);
  const GgufFile file = GgufFile::parse(mapped->bytes(), path.string());
  TokenizerSource result;
  result.origin = path.string();
  result.gguf = read_gguf_vocabulary(file);
  result.chat_template = file.string("tokenizer.chat_template").value_or("");
  return result;
}

[[noreturn]] void fail_key(const GgufFile& file, const std::string& key, const std::string& problem) {
  fail_artifact("[tokenizer_files.vocabulary] ", file.origin(), ": tokenizer.ggml.", key, problem);
}

std::string key_of(const char* name) { return std::string("tokenizer.ggml.") + name; }

std::optional<int32_t> token_id(const GgufFile& file, const char* name, std::size_t n_tokens) {
  const std::optional<int64_t> id = file.integer(key_of(name));
  // -1 and its unsigned twin mean "none" in files of several converters.
  if (!id || *id == -1 || *id == UINT32_MAX) return std::nullopt;
  if (*id < 0 || static_cast<uint64_t>(*id) >= n_tokens) {
    fail_key(file, name, base::concat("; expected an id below ", n_tokens, ", got ", *id));
  }
  return static_cast<int32_t>(*id);
}

std::vector<float> read_scores(const GgufFile& file, std::size_t n_tokens) {
  std::vector<float> scores;
  const std::optional<std::vector<double>> stored = file.numbers(key_of("scores"));
  if (!stored || stored->empty()) return scores;
  if (stored->size() != n_tokens) {
    fail_key(file, "scores", base::concat("; expected one per token, ", n_tokens, ", got ", stored->size()));
  }
  scores.reserve(n_tokens);
  for (const double score : *stored) {
    if (std::isnan(score)) fail_key(file, "scores", " holds a NaN");
    // Beyond float's range the conversion would be undefined; such scores only order merges.
    scores.push_back(static_cast<float>(std::fmin(std::fmax(score, -3.4e38), 3.4e38)));
  }
  return scores;
}

std::vector<int32_t> read_token_types(const GgufFile& file, std::size_t n_tokens) {
  std::vector<int32_t> types;
  const std::optional<std::vector<int64_t>> stored = file.integers(key_of("token_type"));
  if (!stored || stored->empty()) return types;
  if (stored->size() != n_tokens) {
    fail_key(file, "token_type",
             base::concat("; expected one per token, ", n_tokens, ", got ", stored->size()));
  }
  types.reserve(n_tokens);
  for (const int64_t type : *stored) {
    if (type < 0 || type > 6) fail_key(file, "token_type", base::concat("; expected 0 to 6, got ", type));
    types.push_back(static_cast<int32_t>(type));
  }
  return types;
}

}  // namespace

TokenizerSource read_tokenizer_source(const ModelFiles& files) {
  return files.is_gguf() ? read_gguf(files.gguf.front()) : read_folder(files.folder);
}

GgufVocabulary read_gguf_vocabulary(const GgufFile& file) {
  const std::vector<std::string>* tokens = file.strings(key_of("tokens"));
  if (tokens == nullptr || tokens->empty())
    fail_key(file, "tokens", " is missing; the file has no vocabulary");
  const std::optional<std::string> model = file.string(key_of("model"));
  if (!model) fail_key(file, "model", " is missing");
  GgufVocabulary vocabulary;
  vocabulary.model = *model;
  vocabulary.pre = file.string(key_of("pre")).value_or("");
  vocabulary.tokens = *tokens;
  const std::size_t n_tokens = tokens->size();
  vocabulary.scores = read_scores(file, n_tokens);
  vocabulary.token_types = read_token_types(file, n_tokens);
  if (const auto* merges = file.strings(key_of("merges"))) vocabulary.merges = *merges;
  vocabulary.add_bos = file.boolean(key_of("add_bos_token"));
  vocabulary.add_eos = file.boolean(key_of("add_eos_token"));
  vocabulary.add_space_prefix = file.boolean(key_of("add_space_prefix"));
  vocabulary.bos_id = token_id(file, "bos_token_id", n_tokens);
  vocabulary.eos_id = token_id(file, "eos_token_id", n_tokens);
  vocabulary.eot_id = token_id(file, "eot_token_id", n_tokens);
  vocabulary.eom_id = token_id(file, "eom_token_id", n_tokens);
  vocabulary.unk_id = token_id(file, "unknown_token_id", n_tokens);
  vocabulary.pad_id = token_id(file, "padding_token_id", n_tokens);
  return vocabulary;
}

std::string chat_template_in(std::string_view text, const std::string& origin) {
  const json document = read_json(text, kWhere, origin, DuplicateKeys::kKeepLast);
  const JsonFields fields(document, kWhere, origin, "");
  const json* value = fields.find("chat_template");
  if (value == nullptr) return "";
  if (!value->is_array()) return fields.string("chat_template").value_or("");
  std::string first;
  for (const json& entry : *value) {
    const JsonFields named(entry, kWhere, origin, "chat_template[]");
    const std::optional<std::string> body = named.string("template");
    if (!body) fail_artifact(named.at("template"), " is missing");
    if (named.string("name") == "default") return *body;
    if (first.empty()) first = *body;
  }
  return first;
}

}  // namespace tessera::artifacts
