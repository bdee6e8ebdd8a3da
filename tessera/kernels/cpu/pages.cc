// Writing, copying and gathering pages. The work is plain copying; rows of D elements are the unit.
#include "tessera/kernels/cpu/pages.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/kernels/cpu/primitive.h"

namespace tessera::kernels::cpu {
namespace {

namespace mx = mlx::core;

/// To the nearest, ties to even.
uint16_t bfloat16_bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<uint16_t>((bits >> 16) | 0x40U);
  return static_cast<uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

/// Calls visit(page pointer, first token in the page, first token of the range, tokens) per page.
template <typename Visit>
void for_each_page(const PageShape& shape, const PageTable& table, int start, int length,
                   const Visit& visit) {
  TESSERA_DCHECK(start >= 0 && static_cast<std::size_t>(start + length) <=
                                   table.pages.size() * static_cast<std::size_t>(shape.page_tokens));
  for (int done = 0; done < length;) {
    const int position = start + done;
    const int in_page = position % shape.page_tokens;
    const int tokens = std::min(shape.page_tokens - in_page, length - done);
    visit(table.pages[static_cast<std::size_t>(position / shape.page_tokens)], in_page, done, tokens);
    done += tokens;
  }
}

/// Rows [Hkv, L, D] of an array with any strides.
struct StridedRows {
  const std::byte* data;
  int64_t head_stride, token_stride, element_stride;  // items
  bool is_rounded;                                    // float32 that becomes bfloat16
};

StridedRows strided_rows(const mx::array& x, const PageShape& shape) {
  return {x.data<std::byte>(), x.strides(1), x.strides(2), x.strides(3), x.dtype() != shape.dtype};
}

/// Copies between positions of a head in a page and rows of elements; `in` and `out` convert items.
template <typename Page, typename Row, typename Copy>
void walk_positions(const PagePlane& plane, Page* head, int in_page, int tokens, Row* rows,
                    int64_t token_stride, int64_t element_stride, const Copy& copy) {
  const auto chunk = static_cast<std::size_t>(plane.chunk_elements);
  const std::size_t step = static_cast<std::size_t>(plane.block_tokens) * chunk;
  for (int token = 0; token < tokens; ++token, rows += token_stride) {
    Page* to = head + plane.first_item(in_page + token);
    Row* from = rows;
    for (int d = 0; d < plane.dim; to += step) {
      for (std::size_t i = 0; i < chunk; ++i, ++d, from += element_stride) copy(to[i], *from);
    }
  }
}

template <typename Item, typename Source, typename Convert>
void write_plane(const PageShape& shape, const PageTable& table, int start, int length,
                 const PagePlane& plane, const StridedRows& rows, const Convert& convert) {
  for_each_page(shape, table, start, length, [&](std::byte* page, int in_page, int first, int tokens) {
    for (int head = 0; head < shape.n_kv_heads; ++head) {
      Item* to =
          reinterpret_cast<Item*>(page + plane.offset + static_cast<std::size_t>(head) * plane.head_bytes());
      const Source* from =
          reinterpret_cast<const Source*>(rows.data) + head * rows.head_stride + first * rows.token_stride;
      walk_positions(plane, to, in_page, tokens, from, rows.token_stride, rows.element_stride,
                     [&](Item& item, const Source& value) { item = convert(value); });
    }
  });
}

void write_plane(const PageShape& shape, const PageTable& table, int start, int length,
                 const PagePlane& plane, const StridedRows& rows) {
  const auto same = [](auto value) { return value; };
  if (rows.is_rounded) {
    write_plane<uint16_t, float>(shape, table, start, length, plane, rows, bfloat16_bits);
  } else if (plane.item_bytes == 2) {
    write_plane<uint16_t, uint16_t>(shape, table, start, length, plane, rows, same);
  } else {
    write_plane<uint32_t, uint32_t>(shape, table, start, length, plane, rows, same);
  }
}

template <typename Item>
void gather_plane(const PageShape& shape, const PageTable& table, int start, int length,
                  const PagePlane& plane, std::byte* out) {
  for_each_page(shape, table, start, length, [&](const std::byte* page, int in_page, int first, int tokens) {
    for (int head = 0; head < shape.n_kv_heads; ++head) {
      const Item* from = reinterpret_cast<const Item*>(page + plane.offset +
                                                       static_cast<std::size_t>(head) * plane.head_bytes());
      Item* to =
          reinterpret_cast<Item*>(out) + (static_cast<std::size_t>(head) * static_cast<std::size_t>(length) +
                                          static_cast<std::size_t>(first)) *
                                             static_cast<std::size_t>(plane.dim);
      walk_positions(plane, from, in_page, tokens, to, plane.dim, 1,
                     [](const Item& item, Item& value) { value = item; });
    }
  });
}

void gather_plane(const PageShape& shape, const PageTable& table, int start, int length,
                  const PagePlane& plane, std::byte* out) {
  if (plane.item_bytes == 2)
    gather_plane<uint16_t>(shape, table, start, length, plane, out);
  else
    gather_plane<uint32_t>(shape, table, start, length, plane, out);
}

class WritePages final : public CpuPrimitive {
 public:
  WritePages(mx::Stream stream, PageShape shape, std::shared_ptr<const PageTable> table, int start)
      : CpuPrimitive(stream), shape_(shape), table_(std::move(table)), start_(start) {}
  const char* name() const override { return "tessera::WritePages"; }

  void eval_cpu(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) override {
    allocate(outputs[0]);
    auto& encoder = mx::cpu::get_command_encoder(stream());
    encoder.dispatch([shape = shape_, table = table_, start = start_, length = inputs[0].shape(2),
                      k = strided_rows(inputs[0], shape_), v = strided_rows(inputs[1], shape_),
                      fence = outputs[0].data<int32_t>()]() {
      write_plane(shape, *table, start, length, shape.keys(), k);
      write_plane(shape, *table, start, length, shape.values(), v);
      *fence = start + length;
    });
  }

 private:
  PageShape shape_;
  std::shared_ptr<const PageTable> table_;
  int start_;
};

class CopyPage final : public CpuPrimitive {
 public:
  CopyPage(mx::Stream stream, PageShape shape, std::shared_ptr<const PageTable> from,
           std::shared_ptr<const PageTable> to, int tokens)
      : CpuPrimitive(stream), shape_(shape), from_(std::move(from)), to_(std::move(to)), tokens_(tokens) {}
  const char* name() const override { return "tessera::CopyPage"; }

  void eval_cpu(const std::vector<mx::array>&, std::vector<mx::array>& outputs) override {
    allocate(outputs[0]);
    auto& encoder = mx::cpu::get_command_encoder(stream());
    encoder.dispatch(
        [shape = shape_, from = from_, to = to_, tokens = tokens_, fence = outputs[0].data<int32_t>()]() {
          for (const PagePlane& plane : {shape.keys(), shape.values()}) {
            for (int head = 0; head < shape.n_kv_heads; ++head) {
              const std::size_t at = plane.offset + static_cast<std::size_t>(head) * plane.head_bytes();
              std::memcpy(to->pages[0] + at, from->pages[0] + at, plane.items(tokens) * plane.item_bytes);
            }
          }
          *fence = tokens;
        });
  }

 private:
  PageShape shape_;
  std::shared_ptr<const PageTable> from_, to_;
  int tokens_;
};

class GatherPages final : public CpuPrimitive {
 public:
  GatherPages(mx::Stream stream, PageShape shape, std::shared_ptr<const PageTable> table, int start,
              int length)
      : CpuPrimitive(stream), shape_(shape), table_(std::move(table)), start_(start), length_(length) {}
  const char* name() const override { return "tessera::GatherPages"; }

  void eval_cpu(const std::vector<mx::array>&, std::vector<mx::array>& outputs) override {
    allocate(outputs[0]);
    allocate(outputs[1]);
    auto& encoder = mx::cpu::get_command_encoder(stream());
    encoder.dispatch([shape = shape_, table = table_, start = start_, length = length_,
                      k = outputs[0].data<std::byte>(), v = outputs[1].data<std::byte>()]() {
      gather_plane(shape, *table, start, length, shape.keys(), k);
      gather_plane(shape, *table, start, length, shape.values(), v);
    });
  }

 private:
  PageShape shape_;
  std::shared_ptr<const PageTable> table_;
  int start_, length_;
};

mx::Stream stream() { return mx::default_stream(mx::Device::cpu); }

}  // namespace

void write_positions(const PageShape& shape, const PageTable& table, int start, int length, const float* k,
                     std::size_t k_head_stride, std::size_t k_token_stride, const float* v,
                     std::size_t v_head_stride, std::size_t v_token_stride) {
  const auto rows = [&](const float* x, std::size_t head_stride, std::size_t token_stride) {
    return StridedRows{reinterpret_cast<const std::byte*>(x), static_cast<int64_t>(head_stride),
                       static_cast<int64_t>(token_stride), 1, shape.dtype != mx::float32};
  };
  write_plane(shape, table, start, length, shape.keys(), rows(k, k_head_stride, k_token_stride));
  write_plane(shape, table, start, length, shape.values(), rows(v, v_head_stride, v_token_stride));
}

void prefetch_position(const PageShape& shape, const PageTable& table, int position) {
  const std::byte* page = table.pages[static_cast<std::size_t>(position / shape.page_tokens)];
  for (const PagePlane& plane : {shape.keys(), shape.values()}) {
    const std::size_t first = plane.first_item(position % shape.page_tokens) * plane.item_bytes;
    const std::size_t step =
        static_cast<std::size_t>(plane.block_tokens * plane.chunk_elements) * plane.item_bytes;
    const auto steps = static_cast<std::size_t>(plane.dim / plane.chunk_elements);
    for (int head = 0; head < shape.n_kv_heads; ++head) {
      const std::byte* at = page + plane.offset + static_cast<std::size_t>(head) * plane.head_bytes() + first;
      for (std::size_t i = 0; i < steps * step; i += std::max<std::size_t>(step, 64))
        __builtin_prefetch(at + i, 1);
    }
  }
}

mx::array write_pages(const PageShape& shape, std::shared_ptr<const PageTable> table, int start,
                      const mx::array& k, const mx::array& v, const mx::array& fence) {
  return mx::array({}, mx::int32, std::make_shared<WritePages>(stream(), shape, std::move(table), start),
                   {k, v, fence});
}

mx::array copy_page(const PageShape& shape, std::shared_ptr<const PageTable> from,
                    std::shared_ptr<const PageTable> to, int tokens, const mx::array& fence) {
  return mx::array({}, mx::int32,
                   std::make_shared<CopyPage>(stream(), shape, std::move(from), std::move(to), tokens),
                   {fence});
}

std::pair<mx::array, mx::array> gather_pages(const PageShape& shape, std::shared_ptr<const PageTable> table,
                                             int start, int length, const mx::array& fence) {
  auto outputs = mx::array::make_arrays(
      {{1, shape.n_kv_heads, length, shape.key_dim}, {1, shape.n_kv_heads, length, shape.value_dim}},
      {shape.dtype, shape.dtype},
      std::make_shared<GatherPages>(stream(), shape, std::move(table), start, length), {fence});
  return {outputs[0], outputs[1]};
}

}  // namespace tessera::kernels::cpu
