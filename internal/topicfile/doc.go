// Package topicfile exports the settings of topics and channels to a file, and imports them: an
// import changes what differs, and repeated it changes nothing.
//
// The comparison (planOf) is a pure function of the file and of what the cluster has; Commands is
// the shell around it. Settings that a file does not name, and topics and channels that it does not
// have, are left as they are: an import deletes nothing.
package topicfile
