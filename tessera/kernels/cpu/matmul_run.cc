#include "tessera/kernels/cpu/matmul_run.h"

#include <algorithm>

#include "tessera/kernels/cpu/targets.h"

namespace tessera::kernels::cpu {

void multiply_tiles(const Product& product, int m, int first_tile, int last_tile) {
  const PackedMatrix& matrix = *product.matrix;
  const Scratch scratch(matmul_scratch_bytes(matrix.layout, m));
  target().packed_matmul({.layout = matrix.layout,
                          .products = products_for(matrix.layout, matrix.runtime.products),
                          .data = matrix.data.data<std::byte>(),
                          .x = product.x,
                          .y = product.y,
                          .bias = product.bias,
                          .residual = product.residual,
                          .m = m,
                          .first_tile = first_tile,
                          .last_tile = last_tile,
                          .scratch = scratch.data()});
}

void for_each_piece(const PackedLayout& layout, int m, int threads,
                    const std::function<void(int, int)>& visit) {
  // Below this, claiming a task and filling the memory pipeline anew begin to count (about 0.3 microseconds).
  constexpr std::size_t kSmallestPiece = std::size_t{8} << 10;
  const int tiles = layout.tiles();
  // Tiles that kernels take together: many rows a strip, few rows one.
  const int unit = m == 1 ? 1 : kStripTiles;
  const int strips = (tiles + unit - 1) / unit;
  const std::size_t worth = layout.bytes() * static_cast<std::size_t>(m) / kSmallestPiece;
  const int most = std::min(strips, threads * 4);
  const auto count = static_cast<int>(std::clamp<std::size_t>(worth, 1, static_cast<std::size_t>(most)));
  const auto cut = [&](int piece) {
    const auto strip = static_cast<int>(static_cast<int64_t>(strips) * piece / count);
    return std::min(strip * unit, tiles);
  };
  for (int piece = 0; piece < count; ++piece) visit(cut(piece), cut(piece + 1));
}

void multiply(base::ThreadPool& pool, const std::vector<Product>& products, int m) {
  struct Piece {
    const Product* product;
    int first_tile, last_tile;
  };
  std::vector<Piece> pieces;
  for (const Product& product : products) {
    for_each_piece(product.matrix->layout, m, pool.threads(), [&](int first, int last) {
      pieces.push_back({&product, first, last});
    });
  }
  pool.run(static_cast<int>(pieces.size()), [&](int index) {
    const Piece& piece = pieces[static_cast<std::size_t>(index)];
    multiply_tiles(*piece.product, m, piece.first_tile, piece.last_tile);
  });
}

}  // namespace tessera::kernels::cpu
