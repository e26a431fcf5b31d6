//go:build e2e && linux

package netem

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// A machine is a network namespace with one link. It lives on a thread of its own, on
// which its programs are started.
type machine struct {
	wire *wire
	port *port
	work chan func()
	addr netip.Addr
}

// newMachine makes a machine with addr, plugged into w, until the test ends.
func newMachine(t *testing.T, w *wire, addr netip.Addr) *machine {
	t.Helper()
	m := &machine{wire: w, work: make(chan func()), addr: addr}
	ended := make(chan struct{})
	go func() { // ends when work is closed
		defer close(ended)
		runtime.LockOSThread() // for good: the thread ends with the goroutine, and the namespace with it
		for f := range m.work {
			f()
		}
	}()
	t.Cleanup(func() { close(m.work); <-ended })
	var tun *os.File
	err := m.do(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("a network namespace: %w", err)
		}
		var err error
		if tun, err = openTUN("wire0"); err != nil {
			return fmt.Errorf("a TUN device: %w", err)
		}
		return nil
	})
	if refused(err) {
		t.Skipf("the kernel does not let us have %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	m.port = w.plug(tun, addr)
	if err := m.do(func() error { return configure("wire0", addr) }); err != nil {
		t.Fatalf("configure: %v", err)
	}
	return m
}

// refused reports whether err is the kernel's refusal, or lack, of what we asked for.
func refused(err error) bool {
	return errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.ENOENT) ||
		errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENXIO) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS)
}

// do runs f on the machine.
func (m *machine) do(f func() error) error {
	result := make(chan error)
	m.work <- func() { result <- f() }
	return <-result
}

// readdress takes the machine's address away and gives it another, as a change of
// networks does.
func (m *machine) readdress(addr netip.Addr) error {
	m.wire.move(m.port, addr)
	m.addr = addr
	return m.do(func() error { return setAddr("wire0", addr) })
}

func openTUN(name string) (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	req, err := unix.NewIfreq(name)
	if err == nil {
		req.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, req)
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), "tun"), nil
}

// withSocket runs f with a socket for asking the kernel about interfaces.
func withSocket(f func(fd int) error) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return f(fd)
}

// configure brings the link and the loopback up, with everybody on one network.
func configure(name string, addr netip.Addr) error {
	if err := up("lo"); err != nil {
		return err
	}
	err := withSocket(func(fd int) error {
		// The kernel has the MTU as an int in the request.
		req, err := unix.NewIfreq(name)
		if err != nil {
			return err
		}
		req.SetUint32(mtu)
		return unix.IoctlIfreq(fd, unix.SIOCSIFMTU, req)
	})
	if err != nil {
		return fmt.Errorf("mtu: %w", err)
	}
	if err := setAddr(name, addr); err != nil {
		return err
	}
	return up(name)
}

func up(name string) error {
	return withSocket(func(fd int) error {
		req, err := unix.NewIfreq(name)
		if err != nil {
			return err
		}
		req.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
		return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, req)
	})
}

// setAddr makes addr the only address of the interface, in a network of 256.
func setAddr(name string, addr netip.Addr) error {
	return withSocket(func(fd int) error {
		for _, set := range []struct {
			request uint
			ip      net.IP
		}{{unix.SIOCSIFADDR, addr.AsSlice()}, {unix.SIOCSIFNETMASK, net.IPv4(255, 255, 255, 0).To4()}} {
			req, err := unix.NewIfreq(name)
			if err != nil {
				return err
			}
			if err := req.SetInet4Addr(set.ip); err != nil {
				return err
			}
			if err := unix.IoctlIfreq(fd, set.request, req); err != nil {
				return fmt.Errorf("address: %w", err)
			}
		}
		return nil
	})
}
