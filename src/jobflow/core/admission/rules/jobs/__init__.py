"""Rules of the vcjobs of steps: their work, patches, volumes and names."""
