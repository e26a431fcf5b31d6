package protocol_test

import (
	"testing"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/wire"
)

// Clients of before send no parameters of workspace/collect.
func TestCollectParams(t *testing.T) {
	for raw, want := range map[string]bool{`null`: false, `{}`: false, `{"now":false}`: false, `{"now":true}`: true} {
		var p protocol.CollectParams
		if err := wire.Unmarshal([]byte(raw), &p); err != nil || p.Now != want {
			t.Errorf("%s: %+v, %v", raw, p, err)
		}
	}
	var p protocol.CollectParams
	if err := wire.Unmarshal([]byte(`[]`), &p); err == nil {
		t.Error("a list is no parameters")
	}
}
