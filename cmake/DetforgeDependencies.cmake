# Everything comes from Debian packages (scripts/setup.sh installs them); a newer LibTorch is found
# through CMAKE_PREFIX_PATH.
find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(Torch REQUIRED)
find_package(OpenCV REQUIRED COMPONENTS core imgproc imgcodecs)
find_package(simdjson REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(pugixml REQUIRED)
find_package(CLI11 REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(LIBJPEG REQUIRED IMPORTED_TARGET libjpeg)
pkg_check_modules(LIBZIP REQUIRED IMPORTED_TARGET libzip)
pkg_check_modules(ZLIB REQUIRED IMPORTED_TARGET zlib)

# torch as a SYSTEM interface, so that our warning flags do not apply to its headers.
add_library(detforge_torch INTERFACE)
target_include_directories(detforge_torch SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})
target_link_libraries(detforge_torch INTERFACE ${TORCH_LIBRARIES})
separate_arguments(torch_flags UNIX_COMMAND "${TORCH_CXX_FLAGS}")
target_compile_options(detforge_torch INTERFACE ${torch_flags})
