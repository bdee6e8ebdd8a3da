#include "tessera/artifacts/digest.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "tessera/artifacts/file_lock.h"
#include "tessera/base/check.h"

namespace tessera::artifacts {

void Digest::Free::operator()(void* context) const { EVP_MD_CTX_free(static_cast<EVP_MD_CTX*>(context)); }

Digest::Digest(const char* algorithm) : context_(EVP_MD_CTX_new()) {
  const EVP_MD* method = EVP_get_digestbyname(algorithm);
  TESSERA_CHECK(context_ != nullptr && method != nullptr);
  TESSERA_CHECK(EVP_DigestInit_ex(static_cast<EVP_MD_CTX*>(context_.get()), method, nullptr) == 1);
}

Digest Digest::sha256() { return Digest("SHA256"); }

Digest Digest::git_blob(std::uint64_t size) {
  Digest digest("SHA1");
  const std::string header = base::concat("blob ", size);
  digest.update(std::string_view(header.c_str(), header.size() + 1));  // with its terminating zero
  return digest;
}

void Digest::update(std::string_view bytes) {
  TESSERA_CHECK(EVP_DigestUpdate(static_cast<EVP_MD_CTX*>(context_.get()), bytes.data(), bytes.size()) == 1);
}

std::string Digest::hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> value{};
  unsigned int size = 0;
  TESSERA_CHECK(EVP_DigestFinal_ex(static_cast<EVP_MD_CTX*>(context_.get()), value.data(), &size) == 1);
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (unsigned int i = 0; i < size; ++i) {
    out.push_back(kDigits[value[i] >> 4U]);
    out.push_back(kDigits[value[i] & 15U]);
  }
  return out;
}

void update_from_file(Digest& digest, int fd, std::uint64_t n_bytes, const std::string& name) {
  std::vector<char> buffer(1U << 20U);
  std::uint64_t done = 0;
  while (done < n_bytes) {
    const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), n_bytes - done));
    const ssize_t n = ::pread(fd, buffer.data(), wanted, static_cast<off_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      base::fail_artifact("[digest.read] ", name, ": ", n < 0 ? std::strerror(errno) : "short read");
    }
    digest.update({buffer.data(), static_cast<std::size_t>(n)});
    done += static_cast<std::uint64_t>(n);
  }
}

std::string sha256_of_file(const std::filesystem::path& path) {
  const FileHandle file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status {};
  if (file.get() < 0 || ::fstat(file.get(), &status) != 0) {
    base::fail_argument("[digest.open] ", path.string(), ": ", std::strerror(errno));
  }
  Digest digest = Digest::sha256();
  update_from_file(digest, file.get(), static_cast<std::uint64_t>(status.st_size), path.string());
  return digest.hex();
}

}  // namespace tessera::artifacts
