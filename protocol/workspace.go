package protocol

import "github.com/wsd-dev/wsd/protocol/wire"

// MethodWorkspaceCollect deletes content that no file of the workspace has any more.
const MethodWorkspaceCollect = "workspace/collect"

// CapWorkspaceCollect announces MethodWorkspaceCollect: there is a workspace.
const CapWorkspaceCollect = "workspaceCollect"

// CollectParams is what workspace/collect takes. It may be left out.
type CollectParams struct {
	// Now deletes whatever the age of it, but for what a push may be about to refer to.
	Now bool `json:"now,omitempty" wire:"optional"`
}

// UnmarshalWire implements wire.Unmarshaler: null is a request without parameters.
func (p *CollectParams) UnmarshalWire(raw []byte) error {
	if wire.IsEmptyParams(raw) {
		*p = CollectParams{}
		return nil
	}
	type plain CollectParams
	return wire.Unmarshal(raw, (*plain)(p))
}

// CollectResult answers workspace/collect.
type CollectResult struct {
	Chunks int64 `json:"chunks"` // deleted
	Bytes  int64 `json:"bytes"`  // in them
	Marked int64 `json:"marked"` // found to be garbage, and left for a later collection
}
