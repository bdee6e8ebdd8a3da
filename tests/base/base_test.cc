#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>

#include "tessera/base/check.h"
#include "tessera/base/file.h"
#include "tessera/base/memory.h"
#include "tessera/base/thread_pool.h"
#include "tessera/options.h"
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

/// The kind of the error that `action` throws, and its message.
template <typename Action>
std::string error_of(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    return std::string(error_kind_name(error.kind())) + " " + error.what();
  }
  return "no error";
}

TEST(ReadFile, DoesNotWaitForTheWriterOfAPipe) {
  const test::TemporaryFolder folder;
  const std::filesystem::path pipe = folder.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_NE(error_of([&] { read_file(pipe); }).find("not a regular file"), std::string::npos);
  EXPECT_NE(error_of([&] { MappedFile::open(pipe); }).find("not a regular file"), std::string::npos);
}

TEST(ReadOptionalFile, OnlyAMissingNameIsAbsent) {
  const test::TemporaryFolder folder;
  folder.write("file", "hello");
  EXPECT_EQ(read_optional_file(folder.path() / "file"), "hello");
  EXPECT_EQ(read_optional_file(folder.path() / "missing"), std::nullopt);
  EXPECT_EQ(read_optional_file(folder.path() / "missing" / "too"), std::nullopt);
  EXPECT_EQ(read_optional_file(folder.path() / "file" / "below"), std::nullopt);
  std::filesystem::create_symlink("file", folder.path() / "link-to-file");
  EXPECT_EQ(read_optional_file(folder.path() / "link-to-file"), "hello");

  folder.write("empty", "");
  std::filesystem::create_directory(folder.path() / "folder");
  std::filesystem::create_symlink("nowhere", folder.path() / "dangling");
  std::filesystem::create_symlink("loop", folder.path() / "loop");
  ASSERT_EQ(::mkfifo((folder.path() / "pipe").c_str(), 0600), 0);
  for (const char* name : {"empty", "folder", "dangling", "loop", "loop/file", "pipe"}) {
    const std::string path = (folder.path() / name).string();
    const std::string error = error_of([&] { read_optional_file(path); });
    EXPECT_TRUE(error.starts_with("invalid_artifact")) << name << ": " << error;
    EXPECT_NE(error.find(path), std::string::npos) << error;
  }
  EXPECT_TRUE(
      error_of([&] { read_optional_file(folder.path() / "file", 4); }).starts_with("invalid_artifact"));
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

/// A kernel's view of memory: 1000 KiB available, this process in the group /outer/inner.
class FakeMemory {
 public:
  FakeMemory() {
    folder_.write("proc/meminfo", "MemTotal: 4000 kB\nMemFree: 10 kB\nMemAvailable: 1000 kB\n");
    folder_.write("proc/self/cgroup", "1:name=systemd:/elsewhere\n0::/outer/inner\n");
  }
  void set_group(const std::string& line) const { folder_.write("proc/self/cgroup", line); }
  void limit(const std::string& group, const std::string& max, const std::string& current,
             const std::string& stat) const {
    folder_.write("cgroup/" + group + "/memory.max", max + "\n");
    folder_.write("cgroup/" + group + "/memory.current", current + "\n");
    folder_.write("cgroup/" + group + "/memory.stat", stat);
  }
  std::optional<uint64_t> available() const {
    return available_memory_bytes({.proc = folder_.path() / "proc", .cgroup = folder_.path() / "cgroup"});
  }

 private:
  test::TemporaryFolder folder_;
};

TEST(Memory, WithoutALimitIsTheSystems) {
  const FakeMemory memory;
  EXPECT_EQ(memory.available(), 1000u * 1024);
  memory.limit("outer/inner", "max", "5", "");
  EXPECT_EQ(memory.available(), 1000u * 1024);
}

TEST(Memory, PageCacheOfAGroupIsRoom) {
  const FakeMemory memory;
  memory.limit("outer/inner", "9000", "8000", "anon 1000\nactive_file 4000\ninactive_file 2500\n");
  EXPECT_EQ(memory.available(), 9000u - (8000 - 6500));
  memory.limit("outer/inner", "9000", "8000", "inactive_file 100000\n");
  EXPECT_EQ(memory.available(), 9000u) << "the figures are not read at one instant";
  memory.limit("outer/inner", "9000", "9500", "anon 9500\n");
  EXPECT_EQ(memory.available(), 0u);
}

TEST(Memory, TheTightestGroupAboveCounts) {
  const FakeMemory memory;
  memory.limit("outer/inner", "9000", "1000", "");
  memory.limit("outer", "7000", "3000", "");
  EXPECT_EQ(memory.available(), 4000u);
  memory.limit(".", "6000", "3500", "");
  EXPECT_EQ(memory.available(), 2500u);
  memory.limit("another", "10", "1", "");
  EXPECT_EQ(memory.available(), 2500u);
}

TEST(Memory, AGroupOutsideTheViewIsTheRoot) {
  const FakeMemory memory;
  memory.limit(".", "6000", "3500", "");
  for (const char* line : {"0::/\n", "0::/../outer\n", "0::/not/mounted/here\n", "4:memory:/outer\n", ""}) {
    memory.set_group(line);
    EXPECT_EQ(memory.available(), 2500u) << line;
  }
}

TEST(Memory, IsAbsentWhereTheSystemDoesNotSay) {
  const test::TemporaryFolder folder;
  EXPECT_FALSE(available_memory_bytes({.proc = folder.path(), .cgroup = folder.path()}));
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

TEST(ThreadPool, RunsAllTasksAndRethrowsOneException) {
  for (const int threads : {1, 2}) {
    ThreadPool pool(threads);
    for (const int tasks : {1, 8}) {
      std::atomic<int> count{0};
      EXPECT_THROW(pool.run(tasks,
                            [&](int i) {
                              ++count;
                              if (i == 0 || i == 3) fail_argument("task ", i);
                            }),
                   Error);
      EXPECT_EQ(count.load(), tasks);
      pool.run(tasks, [&](int) { ++count; });
      EXPECT_EQ(count.load(), 2 * tasks);
    }
  }
}

TEST(ThreadPool, OneRunAtATimeOnTheSerialPathToo) {
  for (const int threads : {1, 2}) {
    ThreadPool pool(threads);
    int unguarded = 0;  // exact, and no race for TSan, only when the runs exclude each other
    std::vector<std::thread> callers;
    for (int caller = 0; caller < 3; ++caller) {
      callers.emplace_back([&] {
        for (int run = 0; run < 1000; ++run) pool.run(1, [&](int) { ++unguarded; });
      });
    }
    for (auto& caller : callers) caller.join();
    EXPECT_EQ(unguarded, 3 * 1000);
  }
}

TEST(ThreadPool, ChoosesAndChecksItsSize) {
  EXPECT_EQ(ThreadPool(0).threads(), physical_cores());
  EXPECT_THROW(ThreadPool(-1), Error);
  EXPECT_THROW(ThreadPool(kMaxThreads + 1), Error);
}

// Sanitizers reserve address space of their own and cannot run under such a limit.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/// Asks for the most threads in an address space that has room for the stacks of a few; the status
/// says how it went. Runs in a child process.
[[noreturn]] void start_too_many_threads() {
  constexpr rlim_t kFewStacks = rlim_t{64} << 20;
  rlim_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlim_t bytes = pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + kFewStacks;
  const struct rlimit limit { .rlim_cur = bytes, .rlim_max = bytes };
  ::setrlimit(RLIMIT_AS, &limit);
  int status = 1;
  try {
    ThreadPool pool(kMaxThreads);
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    const auto count_threads = [] {
      return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
    };
    // A joined thread may be listed for a moment longer.
    for (int i = 0; i < 500 && count_threads() > 1; ++i) ::usleep(10'000);
    status = error.kind() == ErrorKind::kResourceExhausted && count_threads() == 1 ? 0 : 2;
  }
  std::_Exit(status);
}

TEST(ThreadPoolDeathTest, RefusedThreadsAreAnErrorAndLeaveNoneBehind) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(start_too_many_threads(), testing::ExitedWithCode(0), "the system gave [0-9]+ of 1024 threads");
}
#endif

}  // namespace
}  // namespace tessera::base
