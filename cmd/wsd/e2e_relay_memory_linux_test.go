package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wsd-dev/wsd/relay/seal"
)

// A secretText is what must not be found, however it is written.
type secretText struct {
	name  string
	forms [][]byte
}

// everyForm is text as it is, in hexadecimal, and in base64 at each of the three places
// that it may have in what is encoded.
func everyForm(name string, text []byte) secretText {
	s := secretText{name: name, forms: [][]byte{text, []byte(hex.EncodeToString(text))}}
	for shift := range 3 {
		padded := append(bytes.Repeat([]byte{0}, shift), text...)
		for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			encoded := encoding.EncodeToString(padded)
			// The first and the last characters depend on the neighbours.
			s.forms = append(s.forms, []byte(encoded[(shift*8+5)/6:len(encoded)-1]))
		}
	}
	return s
}

// find says which of texts are in the memory of the process.
func find(t *testing.T, pid int, texts []secretText) map[string]bool {
	t.Helper()
	found := make(map[string]bool)
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		t.Fatal(err)
	}
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	const piece, overlap = 1 << 20, 4 << 10
	buf, total := make([]byte, piece+overlap), int64(0)
	for region := range strings.Lines(string(maps)) {
		if !strings.Contains(region, " rw") {
			continue // the program itself
		}
		var from, to int64
		if _, err := fmt.Sscanf(region, "%x-%x", &from, &to); err != nil {
			t.Fatalf("%q: %v", region, err)
		}
		for at := from; at < to; at += piece {
			n, err := mem.ReadAt(buf[:min(piece+overlap, to-at)], at)
			if n == 0 && err != nil {
				break // given back to the kernel meanwhile
			}
			total += int64(min(n, piece))
			for _, text := range texts {
				for _, form := range text.forms {
					if !found[text.name] && bytes.Contains(buf[:n], form) {
						found[text.name] = true
					}
				}
			}
		}
	}
	t.Logf("read %d MiB of memory", total>>20)
	if total < 4<<20 {
		t.Errorf("read %d bytes of memory only", total)
	}
	return found
}

// The relay's whole memory, while streams go through it and after, has nothing of what
// they carry, and no key that could open it. That the search finds what is there, the
// environment's name and the executor's public key show.
func TestRelayHoldsNoPlaintext(t *testing.T) {
	s := newRelaySite(t)
	// Made here, so that no command line and no file that the relay sees has it.
	var random [24]byte
	f, err := os.Open("/dev/urandom")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := io.ReadFull(f, random[:]); err != nil {
		t.Fatal(err)
	}
	marker := []byte("known plaintext " + hex.EncodeToString(random[:]))
	secrets := []secretText{everyForm("plaintext", marker)}
	public, private := identityKeys(t, s.home)
	for i, key := range private {
		secrets = append(secrets, everyForm(fmt.Sprintf("secret key %d", i), key))
	}
	controls := []secretText{everyForm("environment", []byte(`relay/lab`)), everyForm("public key", public)}

	cmd := s.command("exec", "--connect", s.url(), "--token-file", s.token("harness"), "--", "/bin/cat")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line := append(bytes.Clone(marker), '\n')
	stdout := bufio.NewReader(out)
	for round := range 3 {
		const lines = 20_000
		wrote := make(chan error, 1)
		go func() {
			_, err := in.Write(bytes.Repeat(line, lines))
			wrote <- err
		}()
		for i := range lines {
			got, err := stdout.ReadSlice('\n')
			if err != nil || !bytes.Equal(got, line) {
				t.Fatalf("line %d of round %d: %q, %v\n%s", i, round, got, err, &stderr)
			}
			if i == lines/2 {
				// The other half is on its way.
				refuse(t, find(t, s.relay.Process.Pid, secrets))
			}
		}
		if err := <-wrote; err != nil {
			t.Fatal(err)
		}
	}
	found := find(t, s.relay.Process.Pid, append(secrets, controls...))
	for _, c := range controls {
		if !found[c.name] {
			t.Errorf("the search did not find the %s, which is there", c.name)
		}
		delete(found, c.name)
	}
	refuse(t, found)
	// And the ends do hold it: it is the right thing that is searched for.
	if !find(t, cmd.Process.Pid, secrets[:1])["plaintext"] {
		t.Error("the client does not hold the plaintext either")
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, &stderr)
	}
}

func refuse(t *testing.T, found map[string]bool) {
	t.Helper()
	for name := range found {
		t.Errorf("the relay holds the %s", name)
	}
}

// identityKeys reads the keys that the executor keeps below home: a public one, and all
// that is secret.
func identityKeys(t *testing.T, home string) (public []byte, private [][]byte) {
	t.Helper()
	err := filepath.WalkDir(home, func(path string, d iofs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var fields map[string]string
		if json.Unmarshal(data, &fields) != nil || fields["suite"] == "" {
			return nil
		}
		for name, text := range fields {
			if name == "suite" {
				continue
			}
			key, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				return err
			}
			private = append(private, key)
		}
		identity, err := seal.ParseIdentity(data)
		if err != nil {
			return err
		}
		told, err := json.Marshal(identity.Public())
		if err != nil {
			return err
		}
		var key struct {
			X25519 []byte `json:"x25519_public_key"`
		}
		err = json.Unmarshal(told, &key)
		public = key.X25519
		return err
	})
	if err == nil && len(private) < 2 {
		err = errors.New("no identity file")
	}
	if err != nil {
		t.Fatal(err)
	}
	return public, private
}
