#include "tessera/models/registry.h"

#include "tessera/base/check.h"
#include "tessera/models/llama.h"

namespace tessera::models {
namespace {

constexpr Family kFamilies[] = {
    {"llama", check_llama, load_llama},
    {"mistral", check_llama, load_llama},
};

}  // namespace

std::vector<std::string> supported_model_types() {
  std::vector<std::string> types;
  for (const Family& family : kFamilies) types.emplace_back(family.model_type);
  return types;
}

const Family& find_family(const std::string& model_type) {
  for (const Family& family : kFamilies) {
    if (model_type == family.model_type) return family;
  }
  std::string known;
  for (const std::string& type : supported_model_types()) known += (known.empty() ? "" : ", ") + type;
  base::fail_unsupported("[models.load] architecture '", model_type,
                         "' is not supported; supported: ", known);
}

}  // namespace tessera::models
