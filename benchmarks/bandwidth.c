/* Memory read bandwidth, measured beside every benchmark round.
 *
 *   cc -std=c11 -O3 -march=native -pthread bandwidth.c -o bandwidth
 *   bandwidth [--threads 2] [--megabytes 512] [--passes 12]
 *
 * Every thread sums its own part of one buffer that no cache holds. All threads start a pass
 * together, and the pass lasts until the slowest is done; the best pass is printed as one JSON line:
 *   {"read_gb_per_s": 61.3, "threads": 2, "megabytes": 512, "passes": 12}
 * with 1 GB = 1e9 bytes.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { kMaxThreads = 256, kStreams = 4, kLane = 8 };

typedef struct {
  const uint64_t* words;
  size_t count; /* a multiple of kStreams * kLane */
  uint64_t sum;
} Part;

static atomic_int arrived;
static atomic_int generation;
static int thread_count = 2;
static int pass_count = 12;
static double best_seconds = 1e30;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Spins, so that no thread pays for being woken inside a timed pass. */
static void wait_for_all(void) {
  const int seen = atomic_load(&generation);
  if (atomic_fetch_add(&arrived, 1) + 1 == thread_count) {
    atomic_store(&arrived, 0);
    atomic_fetch_add(&generation, 1);
    return;
  }
  while (atomic_load(&generation) == seen) {
  }
}

/* Several streams keep more cache lines in flight than one; the sums of a line become vectors. */
static uint64_t read_all(const Part* part) {
  uint64_t sums[kStreams][kLane] = {{0}};
  const size_t length = part->count / kStreams;
  for (size_t i = 0; i < length; i += kLane) {
    for (size_t stream = 0; stream < kStreams; ++stream) {
      const uint64_t* line = part->words + stream * length + i;
      for (size_t k = 0; k < kLane; ++k) sums[stream][k] += line[k];
    }
  }
  uint64_t total = 0;
  for (size_t stream = 0; stream < kStreams; ++stream) {
    for (size_t k = 0; k < kLane; ++k) total += sums[stream][k];
  }
  return total;
}

static void run_passes(Part* part, int is_timer) {
  for (int pass = 0; pass < pass_count; ++pass) {
    wait_for_all();
    const double start = now();
    part->sum += read_all(part);
    wait_for_all();
    const double seconds = now() - start;
    if (is_timer && seconds < best_seconds) best_seconds = seconds;
  }
}

static void* run_other(void* part) {
  run_passes(part, 0);
  return NULL;
}

static long number(const char* text, long low, long high) {
  char* end = NULL;
  const long value = strtol(text, &end, 10);
  if (*text == '\0' || *end != '\0' || value < low || value > high) {
    fprintf(stderr, "bandwidth: '%s' is not a number from %ld to %ld\n", text, low, high);
    exit(2);
  }
  return value;
}

int main(int argc, char** argv) {
  long megabytes = 512;
  for (int i = 1; i < argc; i += 2) {
    const char* value = i + 1 < argc ? argv[i + 1] : "";
    if (strcmp(argv[i], "--threads") == 0) {
      thread_count = (int)number(value, 1, kMaxThreads);
    } else if (strcmp(argv[i], "--megabytes") == 0) {
      megabytes = number(value, 1, 1L << 20);
    } else if (strcmp(argv[i], "--passes") == 0) {
      pass_count = (int)number(value, 1, 1000);
    } else {
      fprintf(stderr, "bandwidth: unknown option '%s'\n", argv[i]);
      return 2;
    }
  }

  const size_t bytes = (size_t)megabytes * 1000 * 1000;
  const size_t unit = kStreams * kLane;
  const size_t count = bytes / sizeof(uint64_t) / (size_t)thread_count / unit * unit;
  const size_t used = count * (size_t)thread_count * sizeof(uint64_t);
  if (count == 0) {
    fprintf(stderr, "bandwidth: %ld MB is too little for %d threads\n", megabytes, thread_count);
    return 2;
  }
  uint64_t* words = mmap(NULL, used, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0);
  if (words == MAP_FAILED) {
    perror("bandwidth: mmap");
    return 1;
  }
#ifdef MADV_HUGEPAGE
  madvise(words, used, MADV_HUGEPAGE);
#endif
  for (size_t i = 0; i < used / sizeof(uint64_t); ++i) words[i] = i; /* real pages, not the zero page */

  static Part parts[kMaxThreads];
  static pthread_t threads[kMaxThreads];
  for (int i = 0; i < thread_count; ++i) parts[i] = (Part){words + (size_t)i * count, count, 0};
  for (int i = 1; i < thread_count; ++i) {
    if (pthread_create(&threads[i], NULL, run_other, &parts[i]) != 0) {
      fprintf(stderr, "bandwidth: cannot start thread %d\n", i);
      return 1;
    }
  }
  run_passes(&parts[0], 1);
  uint64_t sum = parts[0].sum;
  for (int i = 1; i < thread_count; ++i) {
    pthread_join(threads[i], NULL);
    sum += parts[i].sum;
  }

  /* The words are 0 .. n - 1, so the sum of all passes is known; using it keeps the loads alive. */
  const uint64_t n = used / sizeof(uint64_t);
  const uint64_t expected = (n % 2 == 0 ? n / 2 * (n - 1) : (n - 1) / 2 * n) * (uint64_t)pass_count;
  if (sum != expected) {
    fprintf(stderr, "bandwidth: sum %" PRIu64 ", expected %" PRIu64 "\n", sum, expected);
    return 1;
  }
  printf("{\"read_gb_per_s\": %.2f, \"threads\": %d, \"megabytes\": %ld, \"passes\": %d}\n",
         (double)used / best_seconds / 1e9, thread_count, megabytes, pass_count);
  return 0;
}
