package sqlstate

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/wsd-dev/wsd/relay/rendezvous"
)

// As a child, the test binary does what this variable says with the file of the next.
const (
	roleVariable = "SQLSTATE_TEST_ROLE"
	pathVariable = "SQLSTATE_TEST_PATH"
)

func TestMain(m *testing.M) {
	role := os.Getenv(roleVariable)
	if role == "" {
		os.Exit(m.Run())
	}
	err := runRole(role, os.Getenv(pathVariable))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func runRole(role, path string) error {
	ctx := context.Background()
	s, err := Open(ctx, Config{Path: path})
	if err != nil {
		return err
	}
	defer s.Close()
	switch role {
	case "count":
		return count(ctx, s, perProcess)
	case "write":
		// Says what is done, until it is killed.
		for i := 0; ; i++ {
			if _, err := s.Put(ctx, rendezvous.BucketRegistrations, strconv.Itoa(i), []byte("v"), 0); err != nil {
				return err
			}
			fmt.Println(i)
		}
	}
	return fmt.Errorf("no role %s", role)
}

const (
	processes  = 4
	perProcess = 50
)

// count adds n to a number, one by one, and takes an authorization where there is one.
func count(ctx context.Context, s *State, n int) error {
	for range n {
		for {
			e, err := s.Get(ctx, rendezvous.BucketNodes, "number")
			if err != nil && !errors.Is(err, rendezvous.ErrNotFound) {
				return err
			}
			number, _ := strconv.Atoi(string(e.Value))
			_, err = s.Put(ctx, rendezvous.BucketNodes, "number", []byte(strconv.Itoa(number+1)), e.Revision)
			if err == nil {
				break
			}
			if !errors.Is(err, rendezvous.ErrConflict) {
				return err
			}
		}
	}
	list, err := s.List(ctx, rendezvous.BucketAuthorizations)
	if err != nil {
		return err
	}
	for _, e := range list {
		err := s.Delete(ctx, rendezvous.BucketAuthorizations, e.Key, e.Revision)
		if err == nil {
			fmt.Println("took", e.Key)
		} else if !errors.Is(err, rendezvous.ErrConflict) && !errors.Is(err, rendezvous.ErrNotFound) {
			return err
		}
	}
	return nil
}

func child(t *testing.T, role, path string) *exec.Cmd {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Env = append(os.Environ(), roleVariable+"="+role, pathVariable+"="+path)
	return cmd
}

// Several processes open a file that is not there yet, and write at the same time: no
// change is lost, and each authorization is taken once.
func TestSeveralProcesses(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "relay.db")
	seed := open(t, path)
	const authorizations = 20
	for i := range authorizations {
		put(t, seed, rendezvous.BucketAuthorizations, strconv.Itoa(i), "v")
	}
	results := make(chan string, processes)
	for range processes {
		cmd := child(t, "count", path)
		go func() {
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%v: %s", err, out)
			}
			results <- string(out)
		}()
	}
	var took strings.Builder
	for range processes {
		took.WriteString(<-results)
	}
	if e, err := seed.Get(t.Context(), rendezvous.BucketNodes, "number"); err != nil || string(e.Value) != strconv.Itoa(processes*perProcess) {
		t.Errorf("counted to %s, %v", e.Value, err)
	}
	for i := range authorizations {
		if n := strings.Count(took.String(), fmt.Sprintf("took %d\n", i)); n != 1 {
			t.Errorf("authorization %d was taken %d times", i, n)
		}
	}
}

// Several open a new file at once; the schema is made once.
func TestFirstOpenAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "relay.db")
	results := make(chan error, processes)
	for range processes {
		go func() {
			s, err := Open(context.Background(), Config{Path: path})
			if err == nil {
				_, err = s.Put(context.Background(), rendezvous.BucketTokens, "k", nil, rendezvous.AnyRevision)
				err = errors.Join(err, s.Close())
			}
			results <- err
		}()
	}
	for range processes {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	open(t, path)
}

// A process that is killed at any moment loses nothing that it was told is written.
func TestKilled(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "relay.db")
	for round := range 5 {
		cmd := child(t, "write", path)
		cmd.Env = append(cmd.Env, pathVariable+"="+path+strconv.Itoa(round))
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for range 20 + 37*round {
			if !lines.Scan() {
				t.Fatal("it ended by itself")
			}
		}
		cmd.Process.Kill()
		said := lines.Text()
		for lines.Scan() { // what it still said before it died
			said = lines.Text()
		}
		cmd.Wait()
		next, err := strconv.Atoi(said)
		if err != nil {
			t.Fatal(err)
		}
		s := open(t, path+strconv.Itoa(round))
		for i := range next + 1 {
			if _, err := s.Get(t.Context(), rendezvous.BucketRegistrations, strconv.Itoa(i)); err != nil {
				t.Fatalf("round %d: %d of %d is lost: %v", round, i, next, err)
			}
		}
	}
}
