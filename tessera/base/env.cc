#include "tessera/base/env.h"

#include <cstdlib>
#include <string_view>

#include "tessera/base/check.h"
#include "tessera/environment.h"

namespace tessera::base {
namespace {

constexpr EnvVariable kVariables[] = {
    {"HOME", "parent of the default cache folders"},
    {"XDG_CACHE_HOME", "parent of Tessera's own cache folder, default $HOME/.cache"},
    {"HF_HOME", "Hugging Face folder, default $HOME/.cache/huggingface"},
    {"HF_HUB_CACHE", "Hugging Face model cache, default $HF_HOME/hub"},
    {"HF_ENDPOINT", "endpoint of `pull` when --endpoint is not given"},
    {"HF_TOKEN", "bearer token that `pull` sends to the endpoint"},
    {"TESSERA_KERNEL_TARGET",
     "instruction set of the kernels, of those that `inspect --kernels` lists; default "
     "the fastest that the processor runs"},
    {"TESSERA_PYTHON", "Python used to download the default model, default python3"},
};

}  // namespace

std::span<const EnvVariable> env_variables() { return kVariables; }

std::optional<std::string> env(const char* name) {
  bool is_listed = false;
  for (const EnvVariable& variable : kVariables) {
    is_listed = is_listed || std::string_view(variable.name) == name;
  }
  TESSERA_CHECK(is_listed);
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

}  // namespace tessera::base

std::vector<std::pair<std::string, std::string>> tessera::environment_variables() {
  std::vector<std::pair<std::string, std::string>> variables;
  for (const base::EnvVariable& variable : base::env_variables()) {
    variables.emplace_back(variable.name, variable.meaning);
  }
  return variables;
}
