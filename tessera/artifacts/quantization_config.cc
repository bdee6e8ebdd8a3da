#include "tessera/artifacts/quantization_config.h"

#include <algorithm>

#include "tessera/artifacts/json_fields.h"
#include "tessera/artifacts/quotes.h"
#include "tessera/base/check.h"

namespace tessera::artifacts {
namespace {

using nlohmann::json;

struct ModeRow {
  const char* mode;
  int bits;  // what MLX takes when the file does not say
  int group_size;
};

constexpr ModeRow kModes[] = {{"affine", 4, 64}, {"mxfp4", 4, 32}, {"nvfp4", 4, 16}, {"mxfp8", 8, 32}};

/// A spec whose missing fields come from `base`, or from the mode's own defaults.
QuantizationSpec read_spec(const JsonFields& fields, const std::optional<QuantizationSpec>& base) {
  QuantizationSpec spec;
  spec.mode = fields.string("mode").value_or(base ? base->mode : "affine");
  const auto row = std::find_if(std::begin(kModes), std::end(kModes),
                                [&](const ModeRow& r) { return spec.mode == r.mode; });
  if (row == std::end(kModes))
    base::fail_unsupported(fields.at("mode"), " ", in_quotes(spec.mode),
                           " is not a quantization mode of MLX");
  const bool is_same_mode = base && base->mode == spec.mode;
  spec.bits = static_cast<int>(fields.integer("bits", 1, 16).value_or(is_same_mode ? base->bits : row->bits));
  spec.group_size = static_cast<int>(
      fields.integer("group_size", 1, 1024).value_or(is_same_mode ? base->group_size : row->group_size));
  constexpr int kBits[] = {2, 3, 4, 5, 6, 8};
  constexpr int kGroups[] = {16, 32, 64, 128};
  if (std::find(std::begin(kBits), std::end(kBits), spec.bits) == std::end(kBits)) {
    base::fail_unsupported(fields.at("bits"), "; expected 2, 3, 4, 5, 6 or 8, got ", spec.bits);
  }
  if (std::find(std::begin(kGroups), std::end(kGroups), spec.group_size) == std::end(kGroups)) {
    base::fail_unsupported(fields.at("group_size"), "; expected 16, 32, 64 or 128, got ", spec.group_size);
  }
  return spec;
}

/// The object that holds MLX's quantization, if there is one. MLX writes it under both names; an
/// object that names a method is another toolkit's, whose weights the other object cannot describe.
std::optional<JsonFields> find_quantization(const JsonFields& config) {
  auto copy = config.nested("quantization_config");
  auto quantization = config.nested("quantization");
  for (const auto& fields : {quantization, copy}) {
    const auto method = fields ? fields->string("quant_method") : std::nullopt;
    if (method) {
      base::fail_unsupported(fields->at("quant_method"), " ", in_quotes(*method),
                             "; expected MLX's quantization or none");
    }
  }
  return quantization ? quantization : copy;
}

}  // namespace

std::optional<QuantizationSpec> QuantizationConfig::spec(std::string_view path) const {
  const auto found = overrides.find(path);
  return found == overrides.end() ? fallback : found->second;
}

QuantizationConfig read_quantization(const json& config, const char* where, const std::string& origin) {
  QuantizationConfig result;
  const std::optional<JsonFields> fields = find_quantization(JsonFields(config, where, origin, ""));
  if (!fields) return result;
  if (fields->find("bits") != nullptr || fields->find("group_size") != nullptr ||
      fields->find("mode") != nullptr) {
    result.fallback = read_spec(*fields, std::nullopt);
  }
  for (const auto& [path, value] : fields->object().items()) {
    if (path == "bits" || path == "group_size" || path == "mode" || value.is_null()) continue;
    if (value.is_boolean()) {
      result.overrides.emplace(path, value.get<bool>() ? result.fallback : std::nullopt);
    } else if (value.is_object()) {
      // Built here rather than by nested(): module paths contain dots and any other byte.
      result.overrides.emplace(
          path,
          read_spec(JsonFields(value, where, origin, "quantization." + in_quotes(path)), result.fallback));
    } else {
      base::fail_artifact(fields->at(in_quotes(path)), "; expected true, false or an object, got ",
                          value.type_name());
    }
  }
  return result;
}

}  // namespace tessera::artifacts
