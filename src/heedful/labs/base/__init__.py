"""What every lab needs: registry, report, claims."""
