// Writing, copying and gathering pages. The work is plain copying; rows of D elements are the unit.
#include "tessera/kernels/cpu/pages.h"

#include <cstring>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/kernels/cpu/primitive.h"

namespace tessera::kernels::cpu {
namespace {

namespace mx = mlx::core;

/// One of the two planes of a page.
struct Plane {
  std::size_t offset;      // bytes from the start of the page
  std::size_t row_bytes;   // bytes of one position of one head
  std::size_t head_bytes;  // bytes of one head
};

Plane key_plane(const PageShape& shape) {
  const std::size_t row = static_cast<std::size_t>(shape.key_dim) * shape.dtype.size();
  return {0, row, row * static_cast<std::size_t>(shape.page_tokens)};
}

Plane value_plane(const PageShape& shape) {
  const std::size_t row = static_cast<std::size_t>(shape.value_dim) * shape.dtype.size();
  return {shape.key_bytes(), row, row * static_cast<std::size_t>(shape.page_tokens)};
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

/// A source of rows [Hkv, L, D] with any strides.
struct StridedRows {
  const std::byte* data;
  int64_t head_stride, token_stride, element_stride;  // bytes
};

StridedRows strided_rows(const mx::array& x) {
  const auto size = static_cast<int64_t>(x.itemsize());
  return {x.data<std::byte>(), x.strides(1) * size, x.strides(2) * size, x.strides(3) * size};
}

void copy_row(std::byte* to, const std::byte* from, std::size_t row_bytes, int64_t stride, std::size_t item) {
  if (stride == static_cast<int64_t>(item)) {
    std::memcpy(to, from, row_bytes);
    return;
  }
  for (std::size_t done = 0; done < row_bytes; done += item, from += stride)
    std::memcpy(to + done, from, item);
}

void write_plane(const PageShape& shape, const PageTable& table, int start, int length, const Plane& plane,
                 const StridedRows& rows) {
  for_each_page(shape, table, start, length, [&](std::byte* page, int in_page, int first, int tokens) {
    for (int head = 0; head < shape.n_kv_heads; ++head) {
      std::byte* to = page + plane.offset + static_cast<std::size_t>(head) * plane.head_bytes +
                      static_cast<std::size_t>(in_page) * plane.row_bytes;
      const std::byte* from = rows.data + head * rows.head_stride + first * rows.token_stride;
      for (int token = 0; token < tokens; ++token, to += plane.row_bytes, from += rows.token_stride) {
        copy_row(to, from, plane.row_bytes, rows.element_stride, shape.dtype.size());
      }
    }
  });
}

void gather_plane(const PageShape& shape, const PageTable& table, int start, int length, const Plane& plane,
                  std::byte* out) {
  const std::size_t out_head_bytes = static_cast<std::size_t>(length) * plane.row_bytes;
  for_each_page(shape, table, start, length, [&](const std::byte* page, int in_page, int first, int tokens) {
    for (int head = 0; head < shape.n_kv_heads; ++head) {
      std::memcpy(out + static_cast<std::size_t>(head) * out_head_bytes +
                      static_cast<std::size_t>(first) * plane.row_bytes,
                  page + plane.offset + static_cast<std::size_t>(head) * plane.head_bytes +
                      static_cast<std::size_t>(in_page) * plane.row_bytes,
                  static_cast<std::size_t>(tokens) * plane.row_bytes);
    }
  });
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
                      k = strided_rows(inputs[0]), v = strided_rows(inputs[1]),
                      fence = outputs[0].data<int32_t>()]() {
      write_plane(shape, *table, start, length, key_plane(shape), k);
      write_plane(shape, *table, start, length, value_plane(shape), v);
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
    encoder.dispatch([shape = shape_, from = from_, to = to_, tokens = static_cast<std::size_t>(tokens_),
                      fence = outputs[0].data<int32_t>()]() {
      for (const Plane& plane : {key_plane(shape), value_plane(shape)}) {
        for (int head = 0; head < shape.n_kv_heads; ++head) {
          const std::size_t at = plane.offset + static_cast<std::size_t>(head) * plane.head_bytes;
          std::memcpy(to->pages[0] + at, from->pages[0] + at, tokens * plane.row_bytes);
        }
      }
      *fence = static_cast<int32_t>(tokens);
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
      gather_plane(shape, *table, start, length, key_plane(shape), k);
      gather_plane(shape, *table, start, length, value_plane(shape), v);
    });
  }

 private:
  PageShape shape_;
  std::shared_ptr<const PageTable> table_;
  int start_, length_;
};

mx::Stream stream() { return mx::default_stream(mx::Device::cpu); }

}  // namespace

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
