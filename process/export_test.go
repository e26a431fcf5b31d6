package process

// InfosOf lists the processes of a service whose client may be stalled.
var InfosOf = (*Service).infos
