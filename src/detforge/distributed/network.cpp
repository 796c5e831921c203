#include "detforge/distributed/network.h"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <ifaddrs.h>
#include <memory>
#include <netdb.h>
#include <optional>
#include <poll.h>
#include <sstream>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "detforge/core/error.h"

namespace detforge {
namespace {

/// A socket that closes itself.
class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() {
    if (fd_ >= 0) {
      ::close(fd_);
    }
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

using AddressList = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

AddressList resolve(const std::string& host, std::uint16_t port, int type) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = type;
  addrinfo* list = nullptr;
  const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (error != 0) {
    throw Error(
        fmt::format("the address of \"{}\" cannot be found: {}", host, ::gai_strerror(error)),
        "give the address of rank 0's machine: --master-addr, or MASTER_ADDR");
  }
  return {list, ::freeaddrinfo};
}

std::string text_of(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text = {};
  const void* bytes =
      address->sa_family == AF_INET
          ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in*>(address)->sin_addr)
          : &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  return ::inet_ntop(address->sa_family, bytes, text.data(), text.size());
}

struct Interface {
  std::string name, address;
};

std::vector<Interface> interfaces() {
  std::vector<Interface> found;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) == 0) {
    for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
      if (i->ifa_addr != nullptr &&
          (i->ifa_addr->sa_family == AF_INET || i->ifa_addr->sa_family == AF_INET6)) {
        found.push_back({i->ifa_name, text_of(i->ifa_addr)});
      }
    }
    ::freeifaddrs(list);
  }
  return found;
}

/// The inode of the socket that listens on the port, from the kernel's table.
std::optional<std::string> listening_inode(const char* table, std::uint16_t port) {
  std::ifstream stream(table);
  std::string line;
  std::getline(stream, line);
  while (std::getline(stream, line)) {
    std::istringstream words(line);
    std::string slot, local, remote, state, word;
    words >> slot >> local >> remote >> state;
    for (int i = 0; i < 6; ++i) {
      words >> word;  // the last is the inode
    }
    if (state == "0A" && local.ends_with(fmt::format(":{:04X}", port))) {
      return word;
    }
  }
  return std::nullopt;
}

std::optional<std::string> process_with_socket(const std::string& inode) {
  const std::string wanted = "socket:[" + inode + "]";
  std::error_code error;
  for (const auto& process : std::filesystem::directory_iterator("/proc", error)) {
    std::error_code no_access;
    for (const auto& file : std::filesystem::directory_iterator(process.path() / "fd", no_access)) {
      std::error_code gone;
      if (std::filesystem::read_symlink(file, gone) == wanted) {
        std::string name;
        std::getline(std::ifstream(process.path() / "comm"), name);
        return fmt::format("pid {} ({})", process.path().filename().string(), name);
      }
    }
  }
  return std::nullopt;
}

}  // namespace

std::string local_address_towards(const std::string& host, std::uint16_t port) {
  const AddressList list = resolve(host, port, SOCK_DGRAM);
  for (const addrinfo* to = list.get(); to != nullptr; to = to->ai_next) {
    const Socket socket(::socket(to->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    // A datagram socket that is connected has sent nothing, but knows its route.
    sockaddr_storage own = {};
    socklen_t size = sizeof(own);
    if (socket.fd() >= 0 && ::connect(socket.fd(), to->ai_addr, to->ai_addrlen) == 0 &&
        ::getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&own), &size) == 0) {
      return text_of(reinterpret_cast<const sockaddr*>(&own));
    }
  }
  throw Error(fmt::format("there is no route to {}: {}", host, std::strerror(errno)),
              "check the master address and this machine's network");
}

std::string choose_local_address(const std::string& wanted,
                                 const std::string& master_addr,
                                 std::uint16_t master_port) {
  const char* variable = std::getenv("GLOO_SOCKET_IFNAME");
  const std::string name = !wanted.empty() ? wanted : variable != nullptr ? variable : "";
  if (name.empty()) {
    return local_address_towards(master_addr, master_port);
  }
  const std::vector<Interface> all = interfaces();
  const auto found = std::find_if(all.begin(), all.end(), [&](const Interface& i) {
    return i.name == name || i.address == name;
  });
  if (found != all.end()) {
    return found->address;
  }
  std::vector<std::string> list;
  for (const Interface& i : all) {
    list.push_back(fmt::format("{} ({})", i.name, i.address));
  }
  throw Error(fmt::format("this machine has no network interface or address \"{}\"{}", name,
                          wanted.empty() ? " (GLOO_SOCKET_IFNAME)" : " (--local-addr)"),
              fmt::format("use one of {}; a name must be complete, patterns are not known",
                          fmt::join(list, ", ")),
              Error::Kind::kUsage);
}

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1" || address == "localhost";
}

std::string owner_of_port(std::uint16_t port) {
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    if (const auto inode = listening_inode(table, port)) {
      return process_with_socket(*inode).value_or("a process of another user");
    }
  }
  return "an unknown process";
}

bool accepts_connections(const std::string& host, std::uint16_t port, double seconds) {
  const AddressList list = resolve(host, port, SOCK_STREAM);
  for (const addrinfo* to = list.get(); to != nullptr; to = to->ai_next) {
    const Socket socket(::socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (socket.fd() < 0) {
      continue;
    }
    if (::connect(socket.fd(), to->ai_addr, to->ai_addrlen) == 0) {
      return true;
    }
    pollfd waiting{.fd = socket.fd(), .events = POLLOUT, .revents = 0};
    int error = 0;
    socklen_t size = sizeof(error);
    if (errno == EINPROGRESS && ::poll(&waiting, 1, static_cast<int>(seconds * 1000)) == 1 &&
        ::getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0) {
      return true;
    }
  }
  return false;
}

}  // namespace detforge
