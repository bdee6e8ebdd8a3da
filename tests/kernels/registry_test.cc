// The table of implementations tells the truth.
#include "tessera/kernels/registry.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstddef>
#include <map>

#include "tessera/environment.h"
#include "tessera/error.h"
#include "tessera/kernels/packed_matrix.h"
#include "tests/arrays.h"

namespace tessera {
namespace {

using kernels::cpu::Target;
using testing::AllOf;
using testing::HasSubstr;
namespace mx = mlx::core;

/// The loops of a target without its name.
std::string loops_of(const Target& target) {
  const auto* bytes = reinterpret_cast<const char*>(&target);
  return std::string(bytes + offsetof(Target, prepare_rows), sizeof target - offsetof(Target, prepare_rows));
}

std::map<std::string, std::string> in_use() {
  std::map<std::string, std::string> result;
  for (const KernelInfo& kernel : kernel_implementations()) {
    if (!kernel.is_in_use) continue;
    EXPECT_TRUE(result.emplace(kernel.operation, kernel.target).second) << kernel.operation;
  }
  return result;
}

TEST(KernelRegistry, EveryOperationHasOneImplementationInUse) {
  const auto used = in_use();
  EXPECT_EQ(used.size(), kernels::operations().size());
  EXPECT_EQ(used.at("packed_matmul"), kernels::cpu::target().name);
  EXPECT_EQ(used.at("write_pages"), "baseline");
  EXPECT_EQ(used.at("quantized_matmul"), "reference");
  for (const KernelInfo& kernel : kernel_implementations()) {
    EXPECT_TRUE(kernel.is_supported || !kernel.is_in_use) << kernel.operation << " " << kernel.target;
  }
}

TEST(KernelRegistry, EveryLoopBelongsToAnOperation) {
  const Target& fastest = kernels::cpu::targets().front();
  const Target& baseline = kernels::cpu::targets().back();
  Target mixed = fastest;
  for (const kernels::Operation& operation : kernels::operations()) {
    if (operation.take_loops != nullptr) operation.take_loops(mixed, baseline);
  }
  EXPECT_EQ(loops_of(mixed), loops_of(baseline));
}

TEST(KernelRegistry, OneOperationIsForcedAlone) {
  const auto before = in_use();
  {
    const kernels::ForcedOperation forced("packed_matmul", "baseline");
    const auto now = in_use();
    EXPECT_EQ(now.at("packed_matmul"), "baseline");
    EXPECT_EQ(now.at("attention"), before.at("attention"));
  }
  EXPECT_EQ(in_use(), before);
  EXPECT_THROW(kernels::ForcedOperation("write_pages", "baseline"), Error);
  EXPECT_THROW(kernels::ForcedOperation("matmul", "baseline"), Error);
  EXPECT_THROW(kernels::ForcedOperation("attention", "reference"), Error);
}

TEST(KernelRegistry, BitsAndGroupsAreThoseThatPackingTakes) {
  const auto all = kernel_implementations();
  const auto packed = std::find_if(all.begin(), all.end(), [](const KernelInfo& kernel) {
    return kernel.operation == "packed_matmul" && kernel.target == "baseline";
  });
  const auto lists = [](const std::vector<int>& values, int value) {
    return std::find(values.begin(), values.end(), value) != values.end();
  };
  for (int bits = 1; bits <= 8; ++bits) {
    for (const int group : {16, 32, 64, 128}) {
      const tensor::QuantizedTensor w{mx::zeros({4, 128 * bits / 32}, mx::uint32),
                                      mx::zeros({4, 128 / group}, mx::float16),
                                      mx::zeros({4, 128 / group}, mx::float16), group, bits};
      EXPECT_EQ(kernels::can_pack(w), lists(packed->bits, bits) && lists(packed->group_sizes, group))
          << bits << " bits, group " << group;
    }
  }
}

TEST(KernelRegistry, AWrongTargetIsNamedWithItsSource) {
  try {
    kernels::cpu::find_target("z80", "TESSERA_KERNEL_TARGET");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("TESSERA_KERNEL_TARGET is 'z80'"), HasSubstr("baseline")));
  }
}

}  // namespace
}  // namespace tessera
