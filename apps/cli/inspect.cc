// inspect: what a model is, from its files alone.
#include <fmt/format.h>

#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "apps/cli/json.h"
#include "apps/cli/output.h"
#include "apps/cli/terminal.h"
#include "apps/cli/verbs.h"
#include "tessera/chat.h"
#include "tessera/environment.h"
#include "tessera/error.h"
#include "tessera/model.h"
#include "tessera/tokenizer.h"

namespace tessera::cli {
namespace {

/// What the tokenizer's files add to the model's. A model whose tokenizer cannot be read is still
/// described, with a note.
struct TextInfo {
  bool has_tokenizer = false;
  bool has_template = false;
  std::map<int32_t, std::string> special_tokens;
  std::string note;
};

TextInfo read_text_info(const std::string& model) {
  TextInfo info;
  try {
    const TokenizerSource source = tokenizer_source(model);
    const Tokenizer tokenizer = Tokenizer::load(source);
    info.has_tokenizer = true;
    for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
      if (tokenizer.is_special(id)) info.special_tokens.emplace(id, tokenizer.decode(std::array{id}));
    }
    ChatTemplate::load(source, tokenizer);
    info.has_template = true;
  } catch (const Error& error) {
    // Without a template is a normal state of a base model, which the table says in its own row.
    const bool is_base_model = info.has_tokenizer && error.kind() == ErrorKind::kUnsupported;
    if (!is_base_model) info.note = error.what();
  }
  return info;
}

std::string special_token_name(const TextInfo& text, int32_t id) {
  const auto token = text.special_tokens.find(id);
  return token == text.special_tokens.end() ? "?" : token->second;
}

Json model_json(const ModelInfo& info, const TextInfo& text) {
  Json json = {{"name", info.name},
               {"path", info.path},
               {"format", info.format},
               {"architecture", info.architecture},
               {"n_layers", info.n_layers},
               {"hidden_size", info.hidden_size},
               {"intermediate_size", info.intermediate_size},
               {"n_heads", info.n_heads},
               {"n_kv_heads", info.n_kv_heads},
               {"head_dim", info.head_dim},
               {"vocab_size", info.vocab_size},
               {"context_length", info.context_length},
               {"rope", info.rope},
               {"is_tied", info.is_tied},
               {"parameters", info.parameters},
               {"stored_bytes", info.stored_bytes},
               {"loaded_bytes", info.loaded_bytes},
               {"kv_bytes_per_token", info.kv_bytes_per_token},
               {"tensors", Json::array()},
               {"tensor_list", Json::array()},
               {"has_tokenizer", text.has_tokenizer},
               {"has_chat_template", text.has_template},
               {"eos_token_ids", info.eos_token_ids},
               {"special_tokens", Json::array()},
               {"notes", info.notes}};
  for (const TensorInfo& tensor : info.tensor_list) {
    json["tensor_list"].push_back({{"name", tensor.name},
                                   {"stored_as", tensor.stored_as},
                                   {"loaded_as", tensor.loaded_as},
                                   {"parameters", tensor.parameters},
                                   {"stored_bytes", tensor.stored_bytes},
                                   {"loaded_bytes", tensor.loaded_bytes}});
  }
  for (const TensorClassInfo& tensors : info.tensors) {
    json["tensors"].push_back({{"class", tensors.tensor_class},
                               {"stored_as", tensors.stored_as},
                               {"loaded_as", tensors.loaded_as},
                               {"tensors", tensors.tensors},
                               {"parameters", tensors.parameters},
                               {"stored_bytes", tensors.stored_bytes},
                               {"loaded_bytes", tensors.loaded_bytes}});
  }
  for (const auto& [id, token] : text.special_tokens) {
    json["special_tokens"].push_back({{"id", id}, {"token", token}});
  }
  if (!text.note.empty()) json["notes"].push_back(text.note);
  return json;
}

/// The first special tokens: some vocabularies reserve hundreds of them, which --json lists.
std::string special_tokens_text(const TextInfo& text) {
  constexpr size_t kMostShown = 12;
  std::vector<std::string> shown;
  for (const auto& [id, token] : text.special_tokens) {
    if (shown.size() == kMostShown) break;
    shown.push_back(fmt::format("{} {}", id, token));
  }
  const size_t n_more = text.special_tokens.size() - shown.size();
  return fmt::format("{}{}", fmt::join(shown, ", "), n_more > 0 ? fmt::format(" and {} more", n_more) : "");
}

std::string tensor_table(const ModelInfo& info) {
  std::string text = fmt::format("\n{:<10} {:<22} {:<22} {:>8} {:>12} {:>10} {:>10}\n", "tensors",
                                 "in the file", "in memory", "count", "parameters", "stored", "loaded");
  for (const TensorClassInfo& tensors : info.tensors) {
    text += fmt::format("{:<10} {:<22} {:<22} {:>8} {:>12} {:>10} {:>10}\n", tensors.tensor_class,
                        tensors.stored_as, tensors.loaded_as, tensors.tensors, tensors.parameters,
                        human_bytes(tensors.stored_bytes), human_bytes(tensors.loaded_bytes));
  }
  return text;
}

std::string model_text(const ModelInfo& info, const TextInfo& text) {
  std::vector<std::string> eos;
  for (const int32_t id : info.eos_token_ids)
    eos.push_back(fmt::format("{} {}", id, special_token_name(text, id)));
  const std::vector<std::pair<const char*, std::string>> rows = {
      {"model", info.name},
      {"path", info.path},
      {"format", info.format},
      {"architecture", info.architecture},
      {"layers", std::to_string(info.n_layers)},
      {"sizes", fmt::format("hidden {}, intermediate {}, vocabulary {}", info.hidden_size,
                            info.intermediate_size, info.vocab_size)},
      {"heads", fmt::format("{} query, {} key/value, {} wide", info.n_heads, info.n_kv_heads, info.head_dim)},
      {"rope", info.rope},
      {"context", fmt::format("{} tokens", info.context_length)},
      {"parameters", fmt::format("{:.1f} M{}", static_cast<double>(info.parameters) / 1e6,
                                 info.is_tied ? ", the head is the embedding" : "")},
      {"bytes", fmt::format("{} in the files, {} in memory", human_bytes(info.stored_bytes),
                            human_bytes(info.loaded_bytes))},
      {"KV cache",
       fmt::format("{} per token, {} for the whole context", human_bytes(info.kv_bytes_per_token),
                   human_bytes(info.kv_bytes_per_token * static_cast<uint64_t>(info.context_length)))},
      {"template", text.has_template ? "yes" : "none: generate needs --raw"},
      {"ends with", fmt::format("{}", fmt::join(eos, ", "))},
  };
  std::string result;
  for (const auto& [name, value] : rows) result += fmt::format("{:<13} {}\n", name, value);
  result += fmt::format("{:<13} {}\n", "special", special_tokens_text(text));
  result += tensor_table(info);
  for (const std::string& note : info.notes) result += fmt::format("note: {}\n", note);
  if (!text.note.empty()) result += fmt::format("note: {}\n", text.note);
  return result;
}

int print_environment(bool is_json) {
  Json json = Json::array();
  std::string text;
  for (const auto& [name, meaning] : environment_variables()) {
    json.push_back({{"name", name}, {"meaning", meaning}});
    text += fmt::format("{:<22} {}\n", name, meaning);
  }
  write_output(is_json ? dump_pretty(json) : text);
  return 0;
}

const char* kernel_state(const KernelInfo& kernel) {
  if (kernel.is_in_use) return "in use";
  return kernel.is_supported ? "available" : "not on this CPU";
}

/// For example "float32 x bfloat16, 4 or 8 bits, groups of 32 or 64; K % 32 == 0".
std::string operands_text(const KernelInfo& kernel) {
  std::string text = fmt::format("{}", fmt::join(kernel.inputs, "/"));
  if (!kernel.stored.empty()) text += fmt::format(" x {}", fmt::join(kernel.stored, "/"));
  if (!kernel.bits.empty()) text += fmt::format(", {} bits", fmt::join(kernel.bits, "/"));
  if (!kernel.group_sizes.empty()) text += fmt::format(", groups of {}", fmt::join(kernel.group_sizes, "/"));
  if (!kernel.shapes.empty()) text += fmt::format("; {}", kernel.shapes);
  return text;
}

int print_kernels(bool is_json) {
  Json json = Json::array();
  std::string text =
      fmt::format("{:<18} {:<11} {:<16} {}\n", "operation", "target", "state", "activations x stored");
  std::string previous;
  for (const KernelInfo& kernel : kernel_implementations()) {
    json.push_back({{"operation", kernel.operation},
                    {"target", kernel.target},
                    {"is_supported", kernel.is_supported},
                    {"is_in_use", kernel.is_in_use},
                    {"inputs", kernel.inputs},
                    {"stored", kernel.stored},
                    {"bits", kernel.bits},
                    {"group_sizes", kernel.group_sizes},
                    {"shapes", kernel.shapes}});
    const std::string operands = operands_text(kernel);
    text += fmt::format("{:<18} {:<11} {:<16} {}\n", kernel.operation, kernel.target, kernel_state(kernel),
                        operands == previous ? "the same" : operands);
    previous = operands;
  }
  write_output(is_json ? dump_pretty(json) : text);
  return 0;
}

}  // namespace

void declare(FlagSet& flags, InspectArguments& arguments) {
  declare_model_name(flags, arguments.model, "model");
  flags.toggle({"--json"}, arguments.is_json, "Print one JSON object");
  flags.toggle({"--env"}, arguments.lists_environment, "List the environment variables that have a meaning");
  flags.toggle({"--kernels"}, arguments.lists_kernels,
               "List what implements each operation, and what runs here");
}

int run(const InspectArguments& arguments) {
  if (arguments.lists_environment) return print_environment(arguments.is_json);
  if (arguments.lists_kernels) return print_kernels(arguments.is_json);
  const ModelInfo info = inspect_model(arguments.model);
  const TextInfo text = read_text_info(arguments.model);
  write_output(arguments.is_json ? dump_pretty(model_json(info, text)) : model_text(info, text));
  return 0;
}

}  // namespace tessera::cli
