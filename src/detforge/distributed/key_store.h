#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>

namespace detforge {

/// A small dictionary that all ranks of a run share: c10d's TCPStore, served by one of them or by
/// what started them. Safe for use by several threads. Every call throws CommunicationError, naming
/// the place, if the server does not answer.
class KeyStore {
 public:
  struct Place {
    std::string host;
    std::uint16_t port = 0;  ///< of serve(): 0 takes a free one
  };
  /// Serves the dictionary in this process, until destruction. Throws Error naming who holds the
  /// port if it is taken.
  static std::shared_ptr<KeyStore> serve(const Place& place);
  /// Connects; waits up to `timeout` for a server to appear. Throws CommunicationError if none
  /// does, or, after a few seconds, if what accepts connections there is something else.
  static std::shared_ptr<KeyStore> connect(const Place& place, std::chrono::milliseconds timeout);

  virtual ~KeyStore() = default;
  virtual const Place& place() const = 0;
  virtual void set(const std::string& key, const std::string& value) = 0;
  /// Nothing if the key was never set.
  virtual std::optional<std::string> get(const std::string& key) = 0;
  /// Adds to a counter that starts at 0; its new value.
  virtual std::int64_t add(const std::string& key, std::int64_t amount) = 0;
  /// False if it does not answer any more. Does not throw.
  bool answers() {
    try {
      get("answers");
      return true;
    } catch (const std::exception&) {
      return false;
    }
  }
};

}  // namespace detforge
