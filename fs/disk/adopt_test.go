package disk_test

import (
	"encoding/binary"
	"os"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// acl is an access control list as the kernel has it: the owner and one more user may read
// and write, the group may read.
func acl(uid uint32) []byte {
	const all = ^uint32(0)
	b := binary.LittleEndian.AppendUint32(nil, 2)
	for _, e := range []struct {
		tag, perm uint16
		id        uint32
	}{{0x01, 6, all}, {0x02, 6, uid}, {0x04, 4, all}, {0x10, 6, all}, {0x20, 0, all}} {
		b = binary.LittleEndian.AppendUint16(b, e.tag)
		b = binary.LittleEndian.AppendUint16(b, e.perm)
		b = binary.LittleEndian.AppendUint32(b, e.id)
	}
	return b
}

// A file that is replaced keeps what a tree knows nothing of.
func TestC057ReplacedKeepsItsOwner(t *testing.T) {
	both(t, func(t *testing.T, b *bench) {
		b.write("o", "1")
		uid, gid := os.Geteuid(), os.Getegid()
		if uid == 0 {
			uid, gid = 1234, 4321
			b.must(os.Chown(b.path("o"), uid, gid))
		}
		attributes := map[string][]byte{}
		for name, value := range map[string][]byte{"user.k": []byte("v"), "system.posix_acl_access": acl(1234)} {
			if unix.Setxattr(b.path("o"), name, value, 0) == nil { // not every file system has them
				attributes[name] = value
			}
		}
		b.settle()
		mode := b.inTree()["o"]
		for i, m := range []uint32{0o660, 0o640, 0o4750} {
			text := string(rune('2' + i))
			b.apply(b.file("/workspace/o", text, m))
			info, err := os.Lstat(b.path("o"))
			b.must(err)
			st, _ := info.Sys().(*syscall.Stat_t)
			if int(st.Uid) != uid || int(st.Gid) != gid || uint32(st.Mode)&0o7777 != m { //nolint:unconvert,nolintlint // of another type on some systems
				t.Errorf("it is %d:%d with mode %o, before %s", st.Uid, st.Gid, st.Mode, mode)
			}
			for name, want := range attributes {
				got := make([]byte, 1024)
				n, err := unix.Getxattr(b.path("o"), name, got)
				if got = got[:max(n, 0)]; name != "user.k" && len(got) == len(want) {
					got, want = got[12:20], want[12:20] // of the other user; the mode is in the rest
				}
				if err != nil || !slices.Equal(got, want) {
					t.Errorf("%s: %x, %v; want %x", name, got, err, want)
				}
			}
			if got, err := os.ReadFile(b.path("o")); err != nil || string(got) != text {
				t.Errorf("content %q, %v", got, err)
			}
		}
	})
}

// A file with an attribute that stands for its old content does not keep that.
func TestC057NoOldCapabilities(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only the superuser gives a file capabilities")
	}
	both(t, func(t *testing.T, b *bench) {
		b.write("o", "1")
		capability := binary.LittleEndian.AppendUint32(nil, 0x02000001)
		for range 4 {
			capability = binary.LittleEndian.AppendUint32(capability, 0x400)
		}
		if unix.Setxattr(b.path("o"), "security.capability", capability, 0) != nil {
			return // no such file system
		}
		b.settle()
		b.apply(b.file("/workspace/o", "2", 0o755))
		if n, err := unix.Getxattr(b.path("o"), "security.capability", make([]byte, 100)); err == nil {
			t.Errorf("the new content has %d bytes of capabilities", n)
		}
	})
}
