package mirror

import (
	"testing"
)

func TestSync(t *testing.T) {
	w := newWorld(t, Config{})
	w.local.do("write /a/f one", "mkdir /a/empty", "ln f /a/l", "big /b x ..", "write /a/g two", "chmod /a/g 755")
	w.remote.do("write /r/f three", "write /a/r four")
	r := w.sync()
	w.rest()
	if r.Pushed == 0 || r.Changed != 3 || r.Conflicts != 0 || r.ObjectsOut != 4 || r.ObjectsIn != 2 {
		t.Errorf("moved %+v", r)
	}
	// What came from there is not sent back, and the other way round.
	w.remote.do("write /r/f 3", "rm /a/empty", "mv /a /c")
	r = w.sync()
	w.rest()
	if r.Pushed != 0 || r.Pulled == 0 || r.ObjectsIn != 1 || r.Conflicts != 0 {
		t.Errorf("moved %+v", r)
	}
	w.local.do("rm /c/f", "write /c/f/f now", "mv /r /s")
	r = w.sync()
	w.rest()
	if r.Pulled != 0 || r.Pushed == 0 || r.ObjectsOut != 1 || r.Conflicts != 0 {
		t.Errorf("moved %+v", r)
	}
	w.local.want("/b 644 1048577 bytes 154b8ed3c2383ce429058768595935faf7851b5c38db2b1732594be1d88bc05a",
		"/c/ 755", "/c/f/ 755", "/c/f/f 644 now", "/c/g 755 two", "/c/l -> f", "/c/r 644 four", "/s/ 755", "/s/f 644 3")
}
