package protocol

// MethodWorkspaceCollect deletes content that no file of the workspace has any more.
const MethodWorkspaceCollect = "workspace/collect"

// CapWorkspaceCollect announces MethodWorkspaceCollect: there is a workspace.
const CapWorkspaceCollect = "workspaceCollect"

// CollectResult answers workspace/collect.
type CollectResult struct {
	Chunks int64 `json:"chunks"` // deleted
	Bytes  int64 `json:"bytes"`  // in them
	Marked int64 `json:"marked"` // found to be garbage, and left for a later collection
}
