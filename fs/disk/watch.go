package disk

// watchDir has the system tell of changes in an open directory.
func (w *Workspace) watchDir(int, string) error { return nil }
