#include "tessera/base/check.h"

namespace tessera::base {

void check_failed(const char* condition, const char* file, int line) {
  const std::string_view path(file);
  const std::size_t slash = path.rfind('/');
  const std::string_view name = slash == std::string_view::npos ? path : path.substr(slash + 1);
  fail(ErrorKind::kInternal, "[check] ", condition, " is false at ", name, ":", line,
       "; this is a bug in Tessera");
}

}  // namespace tessera::base
