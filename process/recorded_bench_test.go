package process_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/wsd-dev/wsd/process"
	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/server/sqlite"
)

// BenchmarkRecorder is what a Recorder in a database costs short commands and long output.
func BenchmarkRecorder(b *testing.B) {
	for _, recorded := range []bool{false, true} {
		for name, argv := range map[string][]string{"short": {"echo", "hi"}, "64MiB": {"head", "-c", fmt.Sprint(64 << 20), "/dev/zero"}} {
			b.Run(fmt.Sprintf("%s/recorded=%v", name, recorded), func(b *testing.B) {
				var cfg process.Config
				if recorded {
					db, err := sqlite.Open(b.Context(), sqlite.Config{Path: filepath.Join(b.TempDir(), "db")})
					if err != nil {
						b.Fatal(err)
					}
					defer db.Close()
					cfg.Recorder = openRecorder(b, db.Log())
					defer cfg.Recorder.Close()
				}
				notifier := newCounter()
				service := process.NewService(notifier, cfg)
				defer service.Close()
				start := starter(b, service)
				cpu := cpuTime()
				n := 0
				for b.Loop() {
					n++
					start(&protocol.StartParams{
						ProcessID: fmt.Sprint("p", n), Argv: argv, Cwd: "file:///", Env: map[string]string{"PATH": searchPath},
					})
					<-notifier.closed
				}
				b.ReportMetric(float64(cpuTime()-cpu)/float64(n)/1e6, "cpu-ms/op")
			})
		}
	}
}
