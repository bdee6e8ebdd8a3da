#include "tessera/models/load.h"

#include <utility>

#include "tessera/artifacts/default_model.h"
#include "tessera/base/check.h"
#include "tessera/kernels/registry.h"
#include "tessera/models/registry.h"
#include "tessera/models/weights.h"

namespace tessera::models {

artifacts::ModelFiles find_or_fetch_model(const std::string& name) {
  if (name == "default") artifacts::fetch_default_model();
  return artifacts::find_model(name);
}

OpenModel open_model(const std::string& name, std::shared_ptr<base::ThreadPool> pool) {
  kernels::check_target();
  OpenModel model{.name = name,
                  .files = find_or_fetch_model(name),
                  .checkpoint = nullptr,
                  .config = {},
                  .pool = std::move(pool)};
  model.checkpoint = artifacts::Checkpoint::open(model.files, model.pool);
  model.config = model.checkpoint->config();
  if (!model.config.is_tie_stated) {
    model.config.tie_word_embeddings = !model.checkpoint->contains("lm_head.weight");
  }
  return model;
}

std::shared_ptr<const CausalModel> load_model(const OpenModel& model, const ModelOptions& options) {
  const Family& family = find_family(model.config.model_type);
  family.check(model.config);
  const mlx::core::Dtype dtype = compute_dtype(options.precision);
  uint64_t weight_bytes = 0;
  for (const auto& tensor : model.checkpoint->report(dtype)) weight_bytes += tensor.loaded_bytes;
  const Composition composition = plan(model.config, options, weight_bytes);

  Weights weights(model.checkpoint, dtype,
                  {model.pool, composition.products, std::make_shared<kernels::WeightMemory>()});
  return family.load(weights, model.config, composition);
}

std::shared_ptr<const CausalModel> load_model(const ModelOptions& options) {
  return load_model(open_model(options.model, std::make_shared<base::ThreadPool>(options.threads)), options);
}

}  // namespace tessera::models
