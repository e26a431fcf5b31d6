package protocol

// Requests a client sends.
const (
	MethodInitialize        = "initialize"
	MethodEnvironmentInfo   = "environment/info"
	MethodEnvironmentStatus = "environment/status"

	MethodProcessStart      = "process/start"
	MethodProcessRead       = "process/read"
	MethodProcessWrite      = "process/write"
	MethodProcessSignal     = "process/signal"
	MethodProcessTerminate  = "process/terminate"
	MethodProcessResize     = "process/resize"
	MethodProcessCloseStdin = "process/closeStdin"
	MethodProcessList       = "process/list"

	MethodFsReadFile        = "fs/readFile"
	MethodFsWriteFile       = "fs/writeFile"
	MethodFsCreateDirectory = "fs/createDirectory"
	MethodFsGetMetadata     = "fs/getMetadata"
	MethodFsCanonicalize    = "fs/canonicalize"
	MethodFsReadDirectory   = "fs/readDirectory"
	MethodFsWalk            = "fs/walk"
	MethodFsRemove          = "fs/remove"
	MethodFsCopy            = "fs/copy"
	MethodFsOpen            = "fs/open"
	MethodFsReadBlock       = "fs/readBlock"
	MethodFsWriteBlock      = "fs/writeBlock"
	MethodFsClose           = "fs/close"
	MethodFsWatchMissing    = "fs/watchMissing"
	MethodFsRename          = "fs/rename"
	MethodFsSymlink         = "fs/symlink"
	MethodFsReadLink        = "fs/readLink"
	MethodFsChmod           = "fs/chmod"
	MethodFsGlob            = "fs/glob"
	MethodFsGrep            = "fs/grep"
	MethodFsWatch           = "fs/watch"
	MethodFsUnwatch         = "fs/unwatch"

	MethodHTTPRequest = "http/request"

	MethodSyncWatermarks      = "sync/watermarks"
	MethodSyncHasObjects      = "sync/hasObjects"
	MethodSyncFetchObjects    = "sync/fetchObjects"
	MethodSyncPushObjects     = "sync/pushObjects"
	MethodSyncPush            = "sync/push"
	MethodSyncFetchChanges    = "sync/fetchChanges"
	MethodSyncReadEntry       = "sync/readEntry"
	MethodSyncFetchChangePack = "sync/fetchChangePack"
	MethodSyncApplyChangePack = "sync/applyChangePack"
	MethodSyncLost            = "sync/lost"
	MethodSyncAwait           = "sync/await"

	MethodShellExec        = "shell/exec"
	MethodShellGetExec     = "shell/getExec"
	MethodShellKillExec    = "shell/killExec"
	MethodShellDisposeExec = "shell/disposeExec"

	MethodDiscoverRoots        = "capabilityRoots/discoverV1"
	MethodDiscoverCapabilities = "capabilities/discoverV2"
)

// Notifications, each with its sender.
const (
	NotifyInitialized      = "initialized"            // client
	NotifyProcessOutput    = "process/output"         // server
	NotifyProcessExited    = "process/exited"         // server
	NotifyProcessClosed    = "process/closed"         // server
	NotifyFsMissingChanged = "fs/missingChanged"      // server
	NotifyFsChanged        = "fs/changed"             // server, additive
	NotifyHTTPBodyDelta    = "http/request/bodyDelta" // server

	// Of streams, additive: items and the end are sent by the stream's writer, credit and
	// cancel by its reader, each of which is the client or the server.
	NotifyStreamItems  = "stream/items"
	NotifyStreamEnd    = "stream/end"
	NotifyStreamCredit = "stream/credit"
	NotifyStreamCancel = "stream/cancel"
)
