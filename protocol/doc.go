// Package protocol holds the words of the exec-server wire: the parameters and
// results of every method, the method names, the error codes and the limits.
//
// The structs have fields and tags and no behaviour beyond encoding and
// checking themselves; package wire turns them into JSON and back. Two tags
// steer the strict decoder:
//
//	json:"name"                     the member must be present and not null
//	json:"name" wire:"optional"     it may be absent; null is refused
//	json:"name" wire:"nullable"     it may be absent or null
//
// Members that this server adds to the wire of the codex exec-server are said
// to be "additive" in their comments and are announced by a capability.
// Nothing here is safe or unsafe for concurrent use: the types are plain values.
package protocol
