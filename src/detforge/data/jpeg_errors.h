#pragma once

#include <array>
#include <csetjmp>
#include <cstdio>
#include <jpeglib.h>

namespace detforge::jpeg {

using Message = std::array<char, JMSG_LENGTH_MAX>;

/// What libjpeg calls back instead of ending the process: a fatal error leaves its text in
/// `message` and jumps back into guarded(). `manager` comes first, so that its address is the
/// state's. It must outlive the libjpeg object whose `err` attach() is given to.
///   ErrorState errors;
///   info.err = errors.attach();
///   if (!guarded(errors, [&] { jpeg_create_compress(&info); })) { ... errors.message ... }
struct ErrorState {
  jpeg_error_mgr manager{};
  std::jmp_buf jump{};
  Message message{};  ///< of the fatal error

  jpeg_error_mgr* attach() {
    jpeg_std_error(&manager);
    manager.error_exit = [](j_common_ptr info) {
      auto& state = *reinterpret_cast<ErrorState*>(info->err);
      info->err->format_message(info, state.message.data());
      std::longjmp(state.jump, 1);
    };
    return &manager;
  }
};

/// Calls `work` and returns true, or false if libjpeg gave up in it. Every call into libjpeg that
/// can fail happens here. `work` must not own anything that needs a destructor: a jump skips it.
template <typename Work>
bool guarded(ErrorState& errors, const Work& work) {
  if (setjmp(errors.jump) != 0) {  // NOLINT(cert-err52-cpp): libjpeg's way to report errors
    return false;
  }
  work();
  return true;
}

}  // namespace detforge::jpeg
