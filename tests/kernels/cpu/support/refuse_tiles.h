#pragma once

#if defined(__x86_64__) && defined(__linux__)

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <iterator>

#include "deckle/base/cpu_cap.h"

namespace deckle::testing {

/// From here on the system denies this process the permission that amx_granted() asks for. For a process of its own, before the
/// arithmetic has been chosen; ends it with code 2 to 4 where the refusal has no effect.
inline void refuse_tiles() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_arch_prctl, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[0])),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0x1023, 0, 1),  // ARCH_REQ_XCOMP_PERM
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{std::size(program), program};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) std::exit(2);
  if (syscall(SYS_arch_prctl, 0x1023, 18) != -1 || errno != EPERM) std::exit(3);
  if (amx_granted() || bf16_arithmetic() == Bf16Arithmetic::tiles) std::exit(4);
}

}  // namespace deckle::testing

#endif
