// Running a check on every implementation that this processor can run.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <iostream>

#include "tessera/kernels/cpu/targets.h"

namespace tessera::test {

/// Runs `check` on every target of this processor; says which ones it lacks.
inline void for_each_target(const std::function<void()>& check) {
  int ran = 0;
  for (const auto& target : kernels::cpu::targets()) {
    if (!target.is_supported()) {
      std::cout << "not run on this processor: " << target.name << "\n";
      continue;
    }
    SCOPED_TRACE(target.name);
    const kernels::cpu::ForcedTarget forced(target.name);
    ASSERT_STREQ(kernels::cpu::target().name, target.name);
    check();
    ++ran;
  }
  EXPECT_GE(ran, 1);
}

}  // namespace tessera::test
