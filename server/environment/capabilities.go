package environment

import (
	"slices"

	"github.com/wsd-dev/wsd/protocol"
)

// needs names, for each capability that stands for methods, those methods.
var needs = map[string][]string{
	protocol.CapFsWatchMissing:     {protocol.MethodFsWatchMissing},
	protocol.CapFileWriteStreaming: {protocol.MethodFsOpen, protocol.MethodFsWriteBlock, protocol.MethodFsClose},

	protocol.CapCapabilityDiscoveryV2: {protocol.MethodDiscoverCapabilities},

	protocol.CapProcessResize:     {protocol.MethodProcessResize},
	protocol.CapProcessCloseStdin: {protocol.MethodProcessCloseStdin},
	protocol.CapProcessList:       {protocol.MethodProcessList},
	protocol.CapFsRename:          {protocol.MethodFsRename},
	protocol.CapFsSymlink:         {protocol.MethodFsSymlink},
	protocol.CapFsReadLink:        {protocol.MethodFsReadLink},
	protocol.CapFsChmod:           {protocol.MethodFsChmod},
	protocol.CapFsGlob:            {protocol.MethodFsGlob},
	protocol.CapFsGrep:            {protocol.MethodFsGrep},
	protocol.CapFsWatch:           {protocol.MethodFsWatch, protocol.MethodFsUnwatch},

	protocol.CapSync: {
		protocol.MethodSyncWatermarks, protocol.MethodSyncHasObjects, protocol.MethodSyncFetchObjects,
		protocol.MethodSyncPushObjects, protocol.MethodSyncPush, protocol.MethodSyncFetchChanges,
		protocol.MethodSyncReadEntry, protocol.MethodSyncFetchChangePack, protocol.MethodSyncApplyChangePack,
		protocol.MethodSyncLost, protocol.MethodSyncAwait,
	},
	protocol.CapShell: {
		protocol.MethodShellExec, protocol.MethodShellGetExec, protocol.MethodShellKillExec, protocol.MethodShellDisposeExec,
	},

	protocol.CapShellList: {protocol.MethodShellList},

	protocol.CapHistory: {protocol.MethodHistoryList, protocol.MethodHistoryRead},

	protocol.CapWorkspaceCollect: {protocol.MethodWorkspaceCollect},
}

// refines names, for each capability that is a way in which methods behave, those
// methods: without them the behaviour is nowhere to be seen.
var refines = map[string][]string{
	protocol.CapSandboxedFileStreaming:     {protocol.MethodFsOpen, protocol.MethodFsReadBlock},
	protocol.CapHTTPHeaderEnvVars:          {protocol.MethodHTTPRequest},
	protocol.CapCapabilityDiscoverySandbox: {protocol.MethodDiscoverRoots},

	protocol.CapProcessSignals: {protocol.MethodProcessSignal},
	protocol.CapProcessTimeout: {protocol.MethodProcessStart},
	protocol.CapProcessAttach:  {protocol.MethodProcessStart},
	protocol.CapProcessJoin:    {protocol.MethodProcessRead, protocol.MethodProcessWrite, protocol.MethodProcessResize},
	protocol.CapProcessLimits:  {protocol.MethodProcessStart},
	protocol.CapFsConditional:  {protocol.MethodFsReadFile, protocol.MethodFsWriteFile},
	protocol.CapFsAtomicWrites: {protocol.MethodFsWriteFile},
	protocol.CapDurableLog:     {protocol.MethodProcessRead, protocol.MethodProcessList},
}

// Capabilities returns what a server with these methods may announce: every
// capability that stands for methods it has, and of behaviours, which are the
// capabilities that no list of methods can prove, those whose methods it has.
func Capabilities(methods []string, behaviours ...string) map[string]bool {
	caps := make(map[string]bool)
	for name, wanted := range needs {
		if containsAll(methods, wanted) {
			caps[name] = true
		}
	}
	for _, name := range behaviours {
		if wanted, ok := refines[name]; ok && containsAll(methods, wanted) {
			caps[name] = true
		}
	}
	return caps
}

func containsAll(have, wanted []string) bool {
	for _, name := range wanted {
		if !slices.Contains(have, name) {
			return false
		}
	}
	return true
}
