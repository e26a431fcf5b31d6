package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// hideVariable has a copy of this test look at itself.
const hideVariable = "WSD_TEST_HIDE"

// What a program was started with shows the secret no more, and all else still.
func TestHideSecret(t *testing.T) {
	const secret = "5ecret-of-the-test"
	if os.Getenv(hideVariable) != "" {
		if err := hideSecrets(); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"environ", "cmdline"} {
			b, err := os.ReadFile("/proc/self/" + name)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(b), secret) {
				t.Errorf("%s has the secret", name)
			}
			if !strings.Contains(string(b), strings.Repeat("x", len(secret))) || !strings.Contains(string(b), "and the rest") {
				t.Errorf("%s has lost more than that: %q", name, b)
			}
		}
		return
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestHideSecret$", "-test.v", "--", "--secret="+secret, "and the rest")
	cmd.Env = append(os.Environ(), hideVariable+"=5ecret", envSecret+"="+secret, envToken+"="+secret, "WSD_API_KEY="+secret, "REST=and the rest")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestStartMemory(t *testing.T) {
	fields := strings.Repeat("1 ", 45) + "100 200 200 300 0\n" // from the third on
	for stat, ok := range map[string]bool{
		"1 (wsd) " + fields: true, "1 (w) s (d) ) " + fields: true, "1 (wsd) S 1 2 3\n": false, "": false,
		"1 (wsd) " + strings.Repeat("1 ", 45) + "0 0 0 0 0\n": false, "1 (wsd) " + strings.Repeat("1 ", 45) + "100 200 200 99999999999 0\n": false,
		"1 (wsd) " + strings.Repeat("x ", 50): false,
	} {
		start, end, err := startMemory(stat)
		if (err == nil) != ok || ok && (start != 100 || end != 300) {
			t.Errorf("%.20q: %d, %d, %v", stat, start, end, err)
		}
	}
}

func TestSecretsIn(t *testing.T) {
	for _, tt := range []struct{ began, want string }{
		{"wsd\x00--secret\x00abc\x00A=b\x00", "abc"},
		{"wsd\x00--secret=abc\x00abc\x00RPC_CLIENT_SECRET=def\x00", "abc def"},
		{"wsd\x00WSD_TOKEN=abc\x00WSD_TOKEN_FILE=f\x00WSD_API_KEY=def\x00WSD_X_PASSWORD=g\x00CODEX_API_KEY=k\x00WSD_URL=u\x00", "abc def g"},
		{"wsd\x00--secret\x00--secret\x00--secret\x00x\x00", "--secret x"},
		{"wsd\x00--secret=\x00--secret\x00\x00RPC_CLIENT_SECRET=\x00", ""},
		{"MY_RPC_CLIENT_SECRET=a\x00--secrets=b\x00--secret", ""},
		{"", ""},
	} {
		var got []string
		for _, s := range secretsIn([]byte(tt.began)) {
			got = append(got, tt.began[s.at:s.at+s.length])
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%q: %q, want %q", tt.began, got, tt.want)
		}
	}
}
