# detforge_library(NAME [TORCH] [DEPS folder...] [LIBS library...]): the static library of one folder of
# src/detforge, made of every .cpp below it. TORCH: its files use LibTorch and the precompiled header.
# detforge_test(FOLDER [TORCH] [DEPS folder...]): one test program per folder, one ctest entry per suite.

add_library(detforge_flags INTERFACE)
target_include_directories(detforge_flags INTERFACE ${PROJECT_SOURCE_DIR}/src)
target_compile_options(detforge_flags INTERFACE
  -Wall -Wextra -Wconversion -Wshadow
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict> $<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overflow>  # false alarms of GCC 12 in std::string
  -fno-math-errno -ffp-contract=off)
if(DETFORGE_SANITIZE)
  target_compile_options(detforge_flags INTERFACE
    -fsanitize=${DETFORGE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize=vptr)
  target_link_options(detforge_flags INTERFACE -fsanitize=${DETFORGE_SANITIZE} -fno-sanitize=vptr)
endif()
# Drops the libraries that a program does not use: this is what keeps LibTorch (1 s to load) out of the
# front program although it links folders that also hold code for LibTorch.
target_link_options(detforge_flags INTERFACE -Wl,--as-needed)
target_link_libraries(detforge_flags INTERFACE Threads::Threads OpenMP::OpenMP_CXX)

if(DETFORGE_PCH)
  add_library(detforge_pch OBJECT ${PROJECT_SOURCE_DIR}/cmake/pch.cpp)
  target_link_libraries(detforge_pch PRIVATE detforge_flags detforge_torch)
  target_precompile_headers(detforge_pch PRIVATE ${PROJECT_SOURCE_DIR}/cmake/pch.h)
  target_compile_options(detforge_pch PRIVATE -fpch-preprocess)
endif()

function(detforge_use_torch target)
  target_link_libraries(${target} PUBLIC detforge_torch)
  if(DETFORGE_PCH)
    # CMake compiles programs with -fPIE, but GCC takes the header only with the -fPIC that it was made with.
    target_compile_options(${target} PRIVATE -fPIC)
    target_compile_options(${target} PRIVATE -fpch-preprocess)
    target_precompile_headers(${target} REUSE_FROM detforge_pch)
  endif()
endfunction()

function(detforge_library name)
  cmake_parse_arguments(ARG "TORCH" "" "DEPS;LIBS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "/(main|engine_main)\\.cpp$")
  list(TRANSFORM ARG_DEPS PREPEND detforge_)
  add_library(detforge_${name} STATIC ${sources})
  target_link_libraries(detforge_${name} PUBLIC detforge_flags ${ARG_DEPS} ${ARG_LIBS})
  if(ARG_TORCH)
    detforge_use_torch(detforge_${name})
  endif()
  if(DETFORGE_TIDY)
    set_target_properties(detforge_${name} PROPERTIES CXX_CLANG_TIDY clang-tidy)
  endif()
endfunction()

# Files of a TORCH folder that do not include LibTorch: they skip the 400 MB precompiled header.
function(detforge_torch_free)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
endfunction()

function(detforge_test folder)
  cmake_parse_arguments(ARG "TORCH" "" "DEPS;LIBS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.cpp)
  list(TRANSFORM ARG_DEPS PREPEND detforge_)
  add_executable(${folder}_test ${sources})
  target_include_directories(${folder}_test PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${folder}_test PRIVATE detforge_test_support ${ARG_DEPS} ${ARG_LIBS} GTest::gtest)
  if(ARG_TORCH)
    target_link_libraries(${folder}_test PRIVATE detforge_test_support_torch)
    detforge_use_torch(${folder}_test)
  endif()
  detforge_register_suites(${folder}_test ${sources})
endfunction()

# One ctest entry per suite; the label is in the suite's name: ...Parity, ...Property, ...Cli, ...Slow.
function(detforge_register_suites target)
  set(suites "")
  foreach(source ${ARGN})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
    file(STRINGS ${source} lines REGEX "^(TEST|TEST_F|TEST_P|INSTANTIATE_TEST_SUITE_P)\\(")
    foreach(line ${lines})
      if(line MATCHES "^(TEST|TEST_F)\\(([A-Za-z0-9_]+)")
        list(APPEND suites ${CMAKE_MATCH_2})
      elseif(line MATCHES "^TEST_P\\(([A-Za-z0-9_]+)")
        list(APPEND suites "*/${CMAKE_MATCH_1}")
      endif()
    endforeach()
  endforeach()
  list(REMOVE_DUPLICATES suites)
  foreach(suite ${suites})
    string(REPLACE "*/" "" plain ${suite})
    set(label unit)
    foreach(kind Parity Property Cli Slow)
      if(plain MATCHES "${kind}$")
        string(TOLOWER ${kind} label)
      endif()
    endforeach()
    add_test(NAME ${target}.${plain} COMMAND ${target} --gtest_filter=${suite}.* --gtest_brief=1
             WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    set_tests_properties(${target}.${plain} PROPERTIES LABELS ${label} TIMEOUT 600
      ENVIRONMENT "DETFORGE_BIN=${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/detforge;OMP_WAIT_POLICY=passive")
  endforeach()
endfunction()
