package server

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// knowsPeers says that this system tells whose process is at the other end of a TCP
// connection within the machine.
const knowsPeers = true

// errNoPeer is returned for a connection whose other end is no open socket of this
// network namespace.
var errNoPeer = errors.New("its socket is not known to this machine's kernel")

// peerUser returns the user whose process holds the other end of c, a TCP connection
// within this machine.
func peerUser(c net.Conn) (int, error) {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return 0, fmt.Errorf("a %T is no TCP connection", c)
	}
	local, ok1 := c.LocalAddr().(*net.TCPAddr)
	remote, ok2 := c.RemoteAddr().(*net.TCPAddr)
	if !ok1 || !ok2 {
		return 0, errNoPeer
	}
	far := socketID{addressOf(remote), addressOf(local)}
	uid, err := diagnose(far)
	if err != nil { // also where sock_diag is missing or kept from this program
		uid, err = lookUp(far)
	}
	if err != nil {
		return 0, err
	}
	// While this end is open nobody else can have the addresses of the other one.
	if err := stillOpen(tcp); err != nil {
		return 0, err
	}
	if err := foreign.check(uid); err != nil {
		return 0, err
	}
	return uid, nil
}

// socketID names a TCP socket by its own address and that of its other end.
type socketID struct{ own, other netip.AddrPort }

func addressOf(a *net.TCPAddr) netip.AddrPort {
	p := a.AddrPort()
	return netip.AddrPortFrom(p.Addr().Unmap().WithZone(""), p.Port())
}

// stillOpen returns an error if the other end has gone away.
func stillOpen(c *net.TCPConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var info *unix.TCPInfo
	var failed error
	if err := raw.Control(func(fd uintptr) { info, failed = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) }); err != nil {
		return err
	}
	if failed != nil {
		return fmt.Errorf("state of the connection: %w", failed)
	}
	if info.State != tcpEstablished && info.State != tcpCloseWait {
		return errNoPeer
	}
	return nil
}

// States of TCP sockets, as the kernel numbers them.
const (
	tcpEstablished = 1
	tcpCloseWait   = 8
	tcpListen      = 10
)

// inetDiagRequest is the kernel's struct inet_diag_req_v2.
type inetDiagRequest struct {
	family, protocol, ext, pad uint8
	states                     uint32
	id                         inetDiagID
}

// inetDiagID is the kernel's struct inet_diag_sockid; ports and addresses are in network
// order.
type inetDiagID struct {
	ownPort, otherPort [2]byte
	own, other         [16]byte
	device             uint32
	cookie             [2]uint32
}

// inetDiagMessage is the kernel's struct inet_diag_msg.
type inetDiagMessage struct {
	family, state, timer, retrans uint8
	id                            inetDiagID
	expires, received, sent       uint32
	uid, inode                    uint32
}

// diagTimeout bounds the wait for the kernel's answer, which comes at once.
const diagTimeout = time.Second

// diagnose asks the kernel for the user of a socket.
func diagnose(s socketID) (int, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return 0, fmt.Errorf("socket of sock_diag: %w", err)
	}
	defer unix.Close(fd)
	limit := unix.NsecToTimeval(diagTimeout.Nanoseconds())
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit); err != nil {
		return 0, fmt.Errorf("time limit of sock_diag: %w", err)
	}
	request := struct {
		header unix.NlMsghdr
		body   inetDiagRequest
	}{body: inetDiagRequest{family: unix.AF_INET6, protocol: unix.IPPROTO_TCP, states: ^uint32(0), id: idOf(s)}}
	if s.own.Addr().Is4() {
		request.body.family = unix.AF_INET
	}
	request.header = unix.NlMsghdr{
		Len: uint32(unsafe.Sizeof(request)), Type: unix.SOCK_DIAG_BY_FAMILY, Flags: unix.NLM_F_REQUEST, Seq: 1,
	}
	raw := unsafe.Slice((*byte)(unsafe.Pointer(&request)), unsafe.Sizeof(request))
	if err := unix.Sendto(fd, raw, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return 0, fmt.Errorf("ask sock_diag: %w", err)
	}
	buf := make([]byte, 4096)
	n, from, err := unix.Recvfrom(fd, buf, 0)
	if err != nil {
		return 0, fmt.Errorf("answer of sock_diag: %w", err)
	}
	if kernel, ok := from.(*unix.SockaddrNetlink); !ok || kernel.Pid != 0 {
		return 0, errors.New("answer of sock_diag: it is not the kernel's")
	}
	return parseDiagnosis(buf[:n], s)
}

// parseDiagnosis reads the user of a socket from the kernel's answer.
func parseDiagnosis(answer []byte, s socketID) (int, error) {
	const header = unix.SizeofNlMsghdr
	if len(answer) < header+4 {
		return 0, fmt.Errorf("answer of sock_diag: %w", io.ErrUnexpectedEOF)
	}
	switch kind := binary.NativeEndian.Uint16(answer[4:]); kind {
	case unix.NLMSG_ERROR:
		errno := unix.Errno(-int32(binary.NativeEndian.Uint32(answer[header:])))
		if errno == unix.ENOENT {
			return 0, errNoPeer
		}
		return 0, fmt.Errorf("answer of sock_diag: %w", errno)
	case unix.SOCK_DIAG_BY_FAMILY:
	default:
		return 0, fmt.Errorf("answer of sock_diag: unexpected type %d", kind)
	}
	var m inetDiagMessage
	body := unsafe.Slice((*byte)(unsafe.Pointer(&m)), unsafe.Sizeof(m))
	if copy(body, answer[header:]) < len(body) {
		return 0, fmt.Errorf("answer of sock_diag: %w", io.ErrUnexpectedEOF)
	}
	own, other := m.id.own[:4], m.id.other[:4]
	if m.family == unix.AF_INET6 {
		own, other = m.id.own[:], m.id.other[:]
	}
	if !isAddress(own, m.id.ownPort, s.own) || !isAddress(other, m.id.otherPort, s.other) {
		return 0, errNoPeer // a socket that listens where s was
	}
	// A socket that no process holds any more has no inode, and its user is said to be
	// root.
	if m.state == tcpListen || m.inode == 0 {
		return 0, errNoPeer
	}
	return int(m.uid), nil
}

func isAddress(ip []byte, port [2]byte, want netip.AddrPort) bool {
	addr, ok := netip.AddrFromSlice(ip)
	return ok && netip.AddrPortFrom(addr.Unmap(), binary.BigEndian.Uint16(port[:])) == want
}

func idOf(s socketID) inetDiagID {
	id := inetDiagID{cookie: [2]uint32{^uint32(0), ^uint32(0)}}
	binary.BigEndian.PutUint16(id.ownPort[:], s.own.Port())
	binary.BigEndian.PutUint16(id.otherPort[:], s.other.Port())
	copy(id.own[:], s.own.Addr().AsSlice())
	copy(id.other[:], s.other.Addr().AsSlice())
	return id
}

// lookUp finds the user of a socket in the tables of /proc. They are read twice: the user
// of the first time counts if a process still holds the socket the second time.
func lookUp(s socketID) (int, error) {
	first, err := lookUpOnce(s)
	if err != nil {
		return 0, err
	}
	second, err := lookUpOnce(s)
	if err != nil {
		return 0, err
	}
	if first.inode != second.inode {
		return 0, errNoPeer
	}
	return first.uid, nil
}

// socketEntry is what a line of /proc/net/tcp says of a socket.
type socketEntry struct {
	uid   int
	inode string
}

func lookUpOnce(s socketID) (socketEntry, error) {
	var errs []error
	for _, table := range []string{"/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"} {
		f, err := os.Open(table)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		entry, err := findSocket(f, s)
		_ = f.Close()
		if err == nil {
			return entry, nil
		}
		if !errors.Is(err, errNoPeer) {
			errs = append(errs, err)
		}
	}
	if len(errs) > 0 {
		return socketEntry{}, fmt.Errorf("the kernel's table of sockets: %w", errors.Join(errs...))
	}
	return socketEntry{}, errNoPeer
}

// findSocket finds a socket that a process holds in a table of /proc/net.
func findSocket(table io.Reader, s socketID) (socketEntry, error) {
	lines := bufio.NewScanner(table)
	for lines.Scan() {
		// sl local_address rem_address st queues timer retrnsmt uid timeout inode
		f := strings.Fields(lines.Text())
		if len(f) < 10 || !isTableAddress(f[1], s.own) || !isTableAddress(f[2], s.other) {
			continue
		}
		uid, err := strconv.Atoi(f[7])
		if err != nil || f[9] == "0" || f[3] == fmt.Sprintf("%02X", tcpListen) {
			continue
		}
		return socketEntry{uid, f[9]}, nil
	}
	if err := lines.Err(); err != nil {
		return socketEntry{}, err
	}
	return socketEntry{}, errNoPeer
}

// isTableAddress compares an address as /proc/net/tcp has it: words of 32 bits in the
// machine's order, and the port.
func isTableAddress(text string, want netip.AddrPort) bool {
	words, port, ok := strings.Cut(text, ":")
	if !ok {
		return false
	}
	number, err := strconv.ParseUint(port, 16, 16)
	if err != nil || uint16(number) != want.Port() {
		return false
	}
	ip, err := hex.DecodeString(words)
	if err != nil || len(ip)%4 != 0 {
		return false
	}
	for i := 0; i < len(ip); i += 4 {
		binary.NativeEndian.PutUint32(ip[i:], binary.BigEndian.Uint32(ip[i:]))
	}
	addr, ok := netip.AddrFromSlice(ip)
	return ok && addr.Unmap() == want.Addr()
}

// foreignUser finds the user that the kernel names for all that this user namespace does
// not know.
type foreignUser struct {
	read  func(name string) ([]byte, error)
	known atomic.Pointer[int]
}

var foreign = &foreignUser{read: os.ReadFile}

// check returns an error for a uid that the kernel has named and that may stand for any
// user.
func (f *foreignUser) check(uid int) error {
	unknown, err := f.find()
	if err != nil {
		return fmt.Errorf("whether this user namespace knows its user is not known: %w", err)
	}
	if uid == unknown {
		return errors.New("it is of a user that this user namespace does not know")
	}
	return nil
}

// find returns -1 if the user namespace knows every user. It reads a file again that it
// could not read before.
func (f *foreignUser) find() (int, error) {
	if uid := f.known.Load(); uid != nil {
		return *uid, nil
	}
	users, err := f.read("/proc/self/uid_map")
	if err != nil && !errors.Is(err, iofs.ErrNotExist) { // as on a kernel without user namespaces
		return 0, err
	}
	uid := -1
	if strings.Join(strings.Fields(string(users)), " ") != "0 0 4294967295" {
		text, err := f.read("/proc/sys/kernel/overflowuid")
		switch {
		case errors.Is(err, iofs.ErrNotExist): // there is no /proc
			return defaultForeignUser, nil
		case err != nil:
			return 0, err
		}
		if uid, err = strconv.Atoi(strings.TrimSpace(string(text))); err != nil {
			return 0, fmt.Errorf("overflowuid: %w", err)
		}
	}
	f.known.Store(&uid)
	return uid, nil
}

// defaultForeignUser is the kernel's if the system's administrator has chosen no other.
const defaultForeignUser = 65534
