#pragma once

#include <cstdint>
#include <string>

namespace detforge {

/// The address of this machine's interface through which `host` is reached, as text: what the
/// kernel's routes say, whatever /etc/hosts maps this machine's own name to. Throws Error if there
/// is no such host or no route.
std::string local_address_towards(const std::string& host, std::uint16_t port);

/// The address that other ranks reach this one at. An explicit address or interface name
/// (`wanted`, then GLOO_SOCKET_IFNAME) wins, else local_address_towards(). Throws Error (kUsage),
/// listing the interfaces, if what is wanted does not exist here.
std::string choose_local_address(const std::string& wanted,
                                 const std::string& master_addr,
                                 std::uint16_t master_port);

bool is_loopback(const std::string& address);

/// Who listens on a TCP port of this machine: "pid 4711 (nc)", or "an unknown process" of another
/// user.
std::string owner_of_port(std::uint16_t port);

/// True once a TCP connection to host:port is accepted, within `seconds`.
bool accepts_connections(const std::string& host, std::uint16_t port, double seconds);

}  // namespace detforge
