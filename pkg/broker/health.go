package broker

// Health tells whether the cluster does what it should, and what is wrong if
// it does not.
func (b *Broker) Health() Health {
	h := Health{Healthy: true, Reasons: b.Ready()}
	h.Healthy = len(h.Reasons) == 0
	if n := b.damage.count(); n > 0 {
		h.Degraded = true
		h.Reasons = append(h.Reasons, HealthReason{"log_corrupt", n, "ranges of the log are damaged and not served"})
	}
	if n := int(b.strays.Load()); n > 0 {
		h.Degraded = true
		h.Reasons = append(h.Reasons, HealthReason{"stray_data", n, "directories of topics that the metadata never knew, or of another cluster: was it lost?"})
	}
	offline := 0
	for _, t := range b.Topics() {
		for i := range t.Partitions {
			if t.Partitions[i].Leader == "" {
				offline++
			}
		}
	}
	if offline > 0 {
		h.Healthy = false
		h.Reasons = append(h.Reasons, HealthReason{"partitions_offline", offline, "partitions have no leader"})
	}
	return h
}

// Ready returns why this node cannot serve everything just now; nothing: it can.
func (b *Broker) Ready() []HealthReason {
	var reasons []HealthReason
	if err := b.failed.Load(); err != nil {
		reasons = append(reasons, HealthReason{"disk_failed", 1, (*err).Error()})
	}
	if b.lowDisk.Load() {
		reasons = append(reasons, HealthReason{"disk_full", 1, "the disk is nearly full: publishes are refused"})
	}
	if _, ok := b.o.Meta.Leader(); !ok {
		reasons = append(reasons, HealthReason{"no_controller", 1, "the metadata has no leader: nothing can be created or changed"})
	}
	if b.exiting.Load() {
		reasons = append(reasons, HealthReason{"exiting", 1, "the node is shutting down"})
	}
	return reasons
}
