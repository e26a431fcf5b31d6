package rendezvous

// SumUp does what Run does now and then.
func (n *Node) SumUp() { n.sumUp() }
