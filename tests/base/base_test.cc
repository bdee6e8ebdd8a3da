#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>

#include "tessera/base/check.h"
#include "tessera/base/file.h"
#include "tessera/base/memory.h"
#include "tessera/base/thread_pool.h"
#include "tests/temporary_folder.h"

namespace tessera::base {
namespace {

TEST(Concat, JoinsTextAndNumbers) {
  EXPECT_EQ(concat("a ", std::string("b"), ' ', 3, " ", true, " ", -7LL), "a b 3 true -7");
}

TEST(Check, NamesTheConditionAndIsInternal) {
  try {
    TESSERA_CHECK(1 + 1 == 3);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInternal);
    EXPECT_NE(std::string(error.what()).find("1 + 1 == 3"), std::string::npos);
  }
}

TEST(MappedFile, ShowsTheBytesAndSurvivesRelease) {
  const test::TemporaryFolder folder;
  std::string content(20000, '\0');
  std::iota(content.begin(), content.end(), static_cast<char>(0));
  folder.write("file", content);
  const auto file = MappedFile::open(folder.path() / "file");
  file->release(file->bytes().subspan(100, 15000));
  ASSERT_EQ(file->bytes().size(), content.size());
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(file->bytes().data()), content.size()), content);
}

TEST(MappedFile, RefusesWhatIsNoFile) {
  const test::TemporaryFolder folder;
  EXPECT_THROW(MappedFile::open(folder.path() / "missing"), Error);
  EXPECT_THROW(MappedFile::open(folder.path()), Error);
  folder.write("empty", "");
  EXPECT_THROW(MappedFile::open(folder.path() / "empty"), Error);
}

TEST(ReadFile, ReturnsTheContentWithinItsLimit) {
  const test::TemporaryFolder folder;
  folder.write("file", "hello");
  EXPECT_EQ(read_file(folder.path() / "file"), "hello");
  EXPECT_THROW(read_file(folder.path() / "file", 4), Error);
  EXPECT_THROW(read_file(folder.path() / "missing"), Error);
}

TEST(WriteFileAtomically, ReplacesAndLeavesNothingElse) {
  const test::TemporaryFolder folder;
  write_file_atomically(folder.path() / "file", "one");
  write_file_atomically(folder.path() / "file", "two");
  EXPECT_EQ(read_file(folder.path() / "file"), "two");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
  EXPECT_THROW(write_file_atomically(folder.path() / "no" / "file", "x"), Error);
}

TEST(Memory, IsPlausible) {
  ASSERT_TRUE(available_memory_bytes());
  EXPECT_GT(*available_memory_bytes(), 1U << 20);
  EXPECT_GT(resident_bytes(), 1U << 20);
  EXPECT_GE(peak_resident_bytes(), resident_bytes() / 2);
}

TEST(ThreadPool, RunsEveryTaskOnce) {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (const int tasks : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> counts(static_cast<std::size_t>(tasks));
      pool.run(tasks, [&](int i) { ++counts[static_cast<std::size_t>(i)]; });
      for (const auto& count : counts) EXPECT_EQ(count.load(), 1);
    }
  }
}

TEST(ThreadPool, ManyShortRunsFromSeveralThreads) {
  ThreadPool pool(3);
  std::atomic<int> total{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 3; ++caller) {
    callers.emplace_back([&] {
      for (int run = 0; run < 500; ++run) pool.run(4, [&](int) { ++total; });
    });
  }
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(total.load(), 3 * 500 * 4);
}

TEST(ThreadPool, RethrowsAndGoesOn) {
  ThreadPool pool(2);
  EXPECT_THROW(pool.run(8,
                        [](int i) {
                          if (i == 3) fail_argument("task ", i);
                        }),
               Error);
  std::atomic<int> count{0};
  pool.run(8, [&](int) { ++count; });
  EXPECT_EQ(count.load(), 8);
}

TEST(ThreadPool, ChoosesAndChecksItsSize) {
  EXPECT_EQ(ThreadPool(0).threads(), physical_cores());
  EXPECT_THROW(ThreadPool(-1), Error);
  EXPECT_THROW(ThreadPool(1000000), Error);
}

}  // namespace
}  // namespace tessera::base
