# ccache needs three allowances to cache objects that use a precompiled header.
find_program(DETFORGE_CCACHE ccache)
if(DETFORGE_CCACHE AND NOT DETFORGE_TIDY)
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 CCACHE_MAXSIZE=12G
      ${DETFORGE_CCACHE})
endif()
