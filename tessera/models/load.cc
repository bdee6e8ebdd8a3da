#include "tessera/models/load.h"

#include "tessera/artifacts/checkpoint.h"
#include "tessera/artifacts/default_model.h"
#include "tessera/base/check.h"
#include "tessera/models/registry.h"
#include "tessera/models/weights.h"

namespace tessera::models {

artifacts::ModelFiles find_or_fetch_model(const std::string& name) {
  if (name == "default") artifacts::fetch_default_model();
  return artifacts::find_model(name);
}

std::shared_ptr<const CausalModel> load_model(const ModelOptions& options) {
  const auto checkpoint = artifacts::Checkpoint::open(find_or_fetch_model(options.model),
                                                      std::make_shared<base::ThreadPool>(options.threads));
  artifacts::ModelConfig config = checkpoint->config();
  const Family& family = find_family(config.model_type);
  if (!config.is_tie_stated) config.tie_word_embeddings = !checkpoint->contains("lm_head.weight");
  family.check(config);

  const mlx::core::Dtype dtype = compute_dtype(options.precision);
  uint64_t weight_bytes = 0;
  for (const artifacts::TensorReport& tensor : checkpoint->report(dtype)) weight_bytes += tensor.loaded_bytes;
  const Composition composition = plan(config, options, weight_bytes);

  Weights weights(checkpoint, dtype);
  return family.load(weights, config, composition);
}

}  // namespace tessera::models
